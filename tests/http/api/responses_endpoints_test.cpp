// SPDX-License-Identifier: Apache-2.0
// The paths of the Responses API before a scripted engine.
#include "http/server/server.hpp"

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

TestResponse ask(const RunningServer& server, const std::string& request) {
  TestClient client(server.port());
  client.send(request);
  return client.read_response();
}

std::string delete_request(const std::string& target, const std::string& fields = "") {
  return "DELETE " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
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

TEST_CASE(
    "responses: a stream whose last events are longer than 16 MB ends whole, and so does the next on it") {
  RunningServer server([](ServerOptions& options) { options.limits.max_stream_buffer_bytes = 100'000; });
  const std::string text(5'000'000, 'x');
  TestClient client(server.port());
  for (RequestId id = 1; id <= 2; ++id) {
    client.send(post_request("/v1/responses", R"({"input":"hi","stream":true})"));
    server.script().wait_for_request(id);
    server.script().deliver(id, Accepted{.prompt_tokens = 5});
    server.script().deliver(id, TextDelta{.text = text, .usage = {}});
    server.script().deliver(id, Finished{});
    const auto response = client.read_response();
    const auto last = boost::json::parse(sse_data(response.body).back());
    CHECK(last.at("type").as_string() == "response.completed");
    const auto& shown = last.at("response").at("output").at(0).at("content").at(0).at("text").as_string();
    CHECK(std::string_view(shown.data(), shown.size()) == text);
  }
}

TEST_CASE("responses: a long whole answer has its length in front, kept or told") {
  RunningServer server;
  const std::string text(300'000, '\n');
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {text, "end"}); };
  StoredResponse& stored = server.script().stored["resp_1"];
  stored.id = "resp_1";
  stored.settings = R"("metadata":{})";
  stored.output = text;
  TestClient client(server.port());
  client.send(post_request("/v1/responses", R"({"input":"hi"})") + get_request("/v1/responses/resp_1") +
              post_request("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})"));
  for (const std::size_t size : {text.size() + 3, text.size(), text.size() + 3}) {
    const auto response = client.read_response();
    CHECK(response.field("Content-Length") == std::to_string(response.body.size()));
    const auto body = boost::json::parse(response.body);
    const auto& part = body.as_object().contains("output")
                           ? body.at("output").at(0).at("content").at(0).at("text")
                           : body.at("choices").at(0).at("message").at("content");
    CHECK(part.as_string().size() == size);
  }
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

TEST_CASE("responses: calls and reasoning are items of a whole answer, and of a stored one") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) {
    server.script().deliver(id, Accepted{.prompt_tokens = 5});
    server.script().deliver(
        id, TextDelta{.text = "Wait.",
                      .usage = {},
                      .reasoning = "hm",
                      .calls = {{.index = 0, .id = "call_0", .name = "s__f", .arguments = "{\"a\": 1}"}}});
    Finished finished;
    finished.called_tools = true;
    finished.usage.reasoning_tokens = 3;
    server.script().deliver(id, finished);
  };
  const auto body = boost::json::parse(
      ask(server,
          post_request("/v1/responses", R"({"input":"hi","tools":[{"type":"namespace","name":"s","tools":)"
                                        R"([{"type":"function","name":"f"}]}],"parallel_tool_calls":false})"))
          .body);
  const std::string id(body.at("id").as_string());
  const std::string items =
      R"([{"id":"rs_ID","type":"reasoning","status":"completed","summary":[],)"
      R"("content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"id":"msg_ID_o1","type":"message","status":"completed","role":"assistant",)"
      R"("content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Wait."}]},)"
      R"({"id":"fc_ID_o2","type":"function_call","status":"completed","call_id":"call_0",)"
      R"("name":"f","namespace":"s","arguments":"{\"a\": 1}"}])";
  const auto with_id = [&](std::string text, const std::string& number) {
    for (auto at = text.find("ID"); at != std::string::npos; at = text.find("ID"))
      text.replace(at, 2, number);
    return boost::json::parse(text);
  };
  CHECK(body.at("status").as_string() == "completed");
  CHECK(body.at("tool_choice").as_string() == "auto");
  CHECK_FALSE(body.at("parallel_tool_calls").as_bool());
  CHECK(body.at("output") == with_id(items, id.substr(5)));
  CHECK(body.at("usage").at("output_tokens_details").at("reasoning_tokens") == 3);
  CHECK(body.at("tools") ==
        boost::json::parse(R"([{"type":"namespace","name":"s","tools":[{"type":"function","name":"f"}]}])"));

  StoredResponse& stored = server.script().stored["resp_7"];
  stored.id = "resp_7";
  stored.settings = R"("metadata":{})";
  stored.answer = {
      {"reasoning", "hm"},
      {"assistant", "Wait."},
      {"function_call", R"({"call_id":"call_0","name":"f","namespace":"s","arguments":"{\"a\": 1}"})"}};
  const auto found = boost::json::parse(ask(server, get_request("/v1/responses/resp_7")).body);
  CHECK(found.at("output") == with_id(items, "7"));
  CHECK(found.at("tool_choice").as_string() == "none");
  CHECK(found.at("tools").as_array().empty());  // it was stored before they were repeated
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

TEST_CASE("keys: requests take turns by tenant, without keys by address, whatever they say of themselves") {
  const auto flow = [](RunningServer& server, const std::string& headers) {
    server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
    ask(server, post_request("/v1/completions", R"({"prompt":"x","user":"somebody"})", headers));
    return server.script().submitted(server.script().num_submitted()).request.flow;
  };
  RunningServer with_keys(serve_alice_and_bob);
  CHECK(flow(with_keys, bearer("key-a")) == "alice");
  CHECK(flow(with_keys, bearer("key-a2")) == "alice");
  CHECK(flow(with_keys, bearer("key-b")) == "bob");
  RunningServer without_keys;
  CHECK(flow(without_keys, "") == "127.0.0.1");
  CHECK(flow(without_keys, bearer("key-a")) == "127.0.0.1");
  CHECK(flow(without_keys, "X-Forwarded-For: 192.0.2.1\r\n") == "127.0.0.1");
}
