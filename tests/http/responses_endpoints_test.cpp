// SPDX-License-Identifier: Apache-2.0
// The paths of the Responses API before a scripted engine.
#include "http/server.hpp"

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

TestResponse ask(const RunningServer& server, const std::string& request) {
  TestClient client(server.port());
  client.send(request);
  return client.read_response();
}

std::string delete_request(const std::string& target, const std::string& fields = "") {
  return "DELETE " + target + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
}

std::string bearer(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }

void serve_alice_and_bob(ServerOptions& options) {
  options.api_keys = {{"alice", "key-a"}, {"bob", "key-b"}, {"alice", "key-a2"}};
}

std::string code_of(const TestResponse& response) {
  return boost::json::parse(response.body).at("error").at("code").as_string().c_str();
}

}  // namespace

TEST_CASE("responses: a whole answer has OpenAI's shape and says whether it is stored") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) {
    server.script().deliver(id, Accepted{.prompt_tokens = 5});
    server.script().deliver(id, TextDelta{.text = "Hello", .usage = {}});
    server.script().deliver(id, Finished{.reason = FinishReason::kStop,
                                         .stop_string = {},
                                         .stop_token = {},
                                         .usage = {.prompt_tokens = 5, .completion_tokens = 1},
                                         .is_stored = true});
  };
  const auto response =
      ask(server, post_request("/v1/responses", R"({"input":"hi","previous_response_id":"resp_0"})"));
  CHECK(response.status == 200);
  const auto body = boost::json::parse(response.body).as_object();
  CHECK(body.at("object").as_string() == "response");
  CHECK(body.at("status").as_string() == "completed");
  CHECK(body.at("output").at(0).at("content").at(0).at("text").as_string() == "Hello");
  CHECK(body.at("previous_response_id").as_string() == "resp_0");
  CHECK(body.at("store").as_bool());
  const auto submitted = server.script().submitted(1).request;
  CHECK(body.at("id").as_string() == submitted.id.c_str());
  CHECK(body.at("created_at").as_int64() == submitted.turn->created);
  CHECK(submitted.id.starts_with("resp_"));
}

TEST_CASE("responses: a stream has named events and no [DONE]") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"Hel", "lo"}); };
  const auto response = ask(server, post_request("/v1/responses", R"({"input":"hi","stream":true})"));
  CHECK(response.field("Content-Type").starts_with("text/event-stream"));
  CHECK(response.body.starts_with("event: response.created\ndata: {"));
  CHECK(response.body.find("event: response.completed\n") != std::string::npos);
  CHECK(response.body.find("[DONE]") == std::string::npos);
}

TEST_CASE("responses: a failure in mid-stream is the response's, before it the request's") {
  RunningServer server;
  const ApiError failure{.kind = ApiErrorKind::kStoreFailed, .message = "no disk"};
  server.script().on_submit = [&](RequestId id) {
    if (id == 1) server.script().deliver(id, Accepted{.prompt_tokens = 5});
    server.script().deliver(id, Failed{failure});
  };
  const auto streamed = ask(server, post_request("/v1/responses", R"({"input":"hi","stream":true})"));
  CHECK(streamed.status == 200);
  CHECK(streamed.body.find("event: response.failed\n") != std::string::npos);
  const auto refused = ask(server, post_request("/v1/responses", R"({"input":"hi","stream":true})"));
  CHECK(refused.status == 500);
  CHECK(code_of(refused) == "store_failed");
}

TEST_CASE("responses: what is stored is shown, with its input, and deleted") {
  RunningServer server;
  StoredResponse stored;
  stored.id = "resp_1";
  stored.created = 77;
  stored.model = "old-model";
  stored.settings = R"("metadata":{"a":"b"})";
  stored.input = {{"user", "question"}};
  stored.output = "answer";
  stored.is_complete = false;
  server.script().stored["resp_1"] = stored;
  const auto body = boost::json::parse(ask(server, get_request("/v1/responses/resp_1")).body).as_object();
  CHECK(body.at("id").as_string() == "resp_1");
  CHECK(body.at("created_at").as_int64() == 77);
  CHECK(body.at("model").as_string() == "old-model");
  CHECK(body.at("status").as_string() == "incomplete");
  CHECK(body.at("metadata").at("a").as_string() == "b");
  CHECK(body.at("output").at(0).at("content").at(0).at("text").as_string() == "answer");
  const auto items = ask(server, get_request("/v1/responses/resp_1/input_items?order=asc"));
  CHECK(boost::json::parse(items.body).at("data").at(0).at("content").at(0).at("text").as_string() ==
        "question");
  CHECK(ask(server, get_request("/v1/responses/resp_1/input_items?limit=0")).status == 400);
  CHECK(ask(server, delete_request("/v1/responses/resp_1")).body ==
        R"({"id":"resp_1","object":"response.deleted","deleted":true})");
  for (const auto& request : {get_request("/v1/responses/resp_1"), delete_request("/v1/responses/resp_1"),
                              get_request("/v1/responses/resp_1/input_items")}) {
    const auto gone = ask(server, request);
    CHECK(gone.status == 404);
    CHECK(code_of(gone) == "response_not_found");
  }
}

TEST_CASE("responses: paths and methods that are none are refused") {
  RunningServer server;
  CHECK(ask(server, get_request("/v1/responses")).status == 405);
  CHECK(ask(server, post_request("/v1/responses/resp_1", "{}")).status == 405);
  CHECK(ask(server, delete_request("/v1/responses/resp_1/input_items")).status == 405);
  CHECK(ask(server, get_request("/v1/responses/")).status == 404);
  CHECK(ask(server, get_request("/v1/responses//input_items")).status == 404);
  CHECK(ask(server, get_request("/v1/responses/" + std::string(200, 'x'))).status == 404);
  CHECK(ask(server, get_request("/v1/responses/../models")).status == 404);
  CHECK(ask(server, get_request("/v1/responses/a%62c")).status == 404);
}

TEST_CASE("keys: each opens the door, and a tenant sees its own responses only") {
  RunningServer server(serve_alice_and_bob);
  StoredResponse stored;
  stored.id = "resp_1";
  stored.tenant = "alice";
  stored.settings = R"("metadata":{})";
  server.script().stored["resp_1"] = stored;
  for (const auto& [key, status] :
       {std::pair{"key-a", 200}, {"key-a2", 200}, {"key-b", 404}, {"key", 401}, {"", 401}}) {
    CAPTURE(key);
    CHECK(ask(server, get_request("/v1/responses/resp_1", bearer(key))).status ==
          static_cast<unsigned>(status));
  }
  CHECK(ask(server, delete_request("/v1/responses/resp_1", bearer("key-b"))).status == 404);
  CHECK(ask(server, delete_request("/v1/responses/resp_1")).status == 401);
  CHECK(ask(server, delete_request("/v1/responses/resp_1", bearer("key-a"))).status == 200);
}

TEST_CASE("keys: the tenant is in the salt of every request, and a request's own salt only adds to it") {
  RunningServer server(serve_alice_and_bob);
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  RequestId number = 0;
  const auto salt = [&](const std::string& key, const std::string& own) {
    const std::string field = own.empty() ? "" : ",\"cache_salt\":\"" + own + "\"";
    ask(server, post_request("/v1/completions", R"({"prompt":"x")" + field + "}", bearer(key)));
    const auto request = server.script().submitted(++number).request;
    return request.tenant + "|" + request.cache_salt;
  };
  CHECK(salt("key-a", "") == salt("key-a2", ""));
  CHECK(salt("key-a", "") != salt("key-b", ""));
  CHECK(salt("key-a", "s") != salt("key-b", "s"));
  CHECK(salt("key-a", "s") != salt("key-a", ""));
  CHECK(salt("key-a", "bob").starts_with("alice|alice"));
}
