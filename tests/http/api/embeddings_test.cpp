// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings, and the choice among models of two kinds.
#include "http/server/server.hpp"

#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "tests/http/running_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace embeddings_test {
namespace {

constexpr std::string_view kInput = R"({"input":["a","b"]})";

TestResponse ask(const RunningServer& server, const std::string& request) {
  TestClient client(server.port());
  client.send(request);
  return client.read_response();
}
TestResponse embed(const RunningServer& server, std::string_view body = kInput,
                   std::string_view fields = {}) {
  return ask(server, post_request("/v1/embeddings", body, fields));
}

boost::json::object error_of(const TestResponse& response) {
  const auto error = boost::json::parse(response.body).at("error").as_object();
  CHECK(error.size() == 4);
  return error;
}

// Two vectors of four numbers.
Embedded two_vectors() { return {.vectors = {0.5F, 0.25F, 0, 1, 3, 4, 0, 0}, .size = 4, .prompt_tokens = 6}; }

void answer_all(RunningServer& server, const std::function<Embedded()>& make = two_vectors) {
  server.script().on_submit = [&server, make](RequestId id) { server.script().deliver(id, make()); };
}

// As much as a request can ask for, of a common size.
Embedded many_vectors() {
  Embedded embedded{.vectors = std::vector<float>(2048 * 384), .size = 384, .prompt_tokens = 2048};
  for (std::size_t i = 0; i < embedded.vectors.size(); ++i)
    embedded.vectors[i] = std::sin(static_cast<float>(i));
  return embedded;
}

ServedModelInfo large_model() {
  ServedModelInfo model = embedding_model();
  model.embedding_size = 384;
  return model;
}

}  // namespace

TEST_CASE("embeddings: the answer, byte for byte, as numbers and as base64") {
  RunningServer server;
  answer_all(server);
  const TestResponse numbers = embed(server);
  CHECK(numbers.status == 200);
  CHECK(numbers.field("Content-Type") == "application/json");
  CHECK(numbers.field("Content-Length") == std::to_string(numbers.body.size()));
  CHECK(numbers.body ==
        R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25,0,1]},)"
        R"({"object":"embedding","index":1,"embedding":[3,4,0,0]}],"model":"minilm",)"
        R"("usage":{"prompt_tokens":6,"total_tokens":6}})");
  const TestResponse base64 =
      embed(server, R"({"model":"minilm","input":["a","b"],"encoding_format":"base64"})");
  CHECK(base64.body ==
        R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgD4AAAAAAACAPw=="},)"
        R"({"object":"embedding","index":1,"embedding":"AABAQAAAgEAAAAAAAAAAAA=="}],"model":"minilm",)"
        R"("usage":{"prompt_tokens":6,"total_tokens":6}})");
  const TestResponse shorter = embed(server, R"({"input":["a","b"],"dimensions":2})");
  CHECK(shorter.body.find(R"("index":1,"embedding":[0.6,0.8]})") != std::string::npos);
}

TEST_CASE("embeddings: the engine gets inputs, model, ids and the client's network") {
  RunningServer server;
  answer_all(server);
  embed(server, R"({"input":["a",[1,2]],"truncate_prompt_tokens":-1})", "X-Request-Id: mine\r\n");
  const EmbeddingRequest request = server.script().submitted(1).embedding;
  CHECK(request.id.starts_with("embd-"));
  CHECK(request.model == 1);
  CHECK(request.truncates);
  REQUIRE(request.inputs.size() == 2);
  CHECK(std::get<TextPrompt>(request.inputs[0]).text == "a");
  CHECK(std::get<TokenPrompt>(request.inputs[1]).tokens == std::vector<std::int32_t>{1, 2});
  CHECK(request.tenant.empty());
  CHECK(request.flow == "127.0.0.1");
  CHECK(request.origin.request_id == "mine");
  CHECK(request.origin.path == "/v1/embeddings");
  CHECK(request.origin.method == "POST");
  CHECK(!request.origin.is_stream);
  CHECK(request.origin.trace.is_valid());
}

TEST_CASE("embeddings: with keys the tenant is the key's, and without one there is no answer") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"alice", "secret"}}; });
  answer_all(server);
  CHECK(embed(server).status == 401);
  CHECK(server.script().num_submitted() == 0);
  CHECK(embed(server, kInput, "Authorization: Bearer secret\r\n").status == 200);
  CHECK(server.script().submitted(1).embedding.tenant == "alice");
  CHECK(server.script().submitted(1).embedding.flow == "alice");
}

TEST_CASE("models: each request runs on the model it names, or on the first that can do it") {
  ServedModelInfo small = demo_model();
  small.name = "small";
  small.context_length = 10;
  small.defaults.temperature = 0.25F;
  RunningServer server({embedding_model(), demo_model(), small});
  server.script().on_submit = [&](RequestId id) {
    if (server.script().submitted(id).embedding.inputs.empty()) {
      server.script().answer(id, {"x"});
    } else {
      server.script().deliver(id, two_vectors());
    }
  };
  const auto generate = [&](const std::string& path, const std::string& body) {
    const TestResponse response = ask(server, post_request(path, body));
    CHECK(response.status == 200);
    return boost::json::parse(response.body).at("model").as_string();
  };
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}]})";
  CHECK(generate("/v1/chat/completions", "{" + chat) == "demo");
  CHECK(generate("/v1/chat/completions", R"({"model":"small","max_tokens":100,)" + chat) == "small");
  CHECK(generate("/v1/completions", R"({"model":"small","prompt":"x"})") == "small");
  CHECK(generate("/v1/responses", R"({"model":"small","input":"x"})") == "small");
  CHECK(generate("/v1/embeddings", R"({"input":"x"})") == "minilm");
  const auto request = [&](RequestId id) { return server.script().submitted(id).request; };
  CHECK(request(1).model == 1);
  CHECK(request(1).sampling.temperature == 1.0F);
  CHECK(request(2).model == 2);
  CHECK(request(2).sampling.temperature == 0.25F);  // the model's default, and its context
  CHECK(request(2).max_tokens == 10);
  CHECK(request(3).max_tokens == 10);
  CHECK(request(4).model == 2);
  CHECK(server.script().submitted(5).embedding.model == 0);
}

TEST_CASE("models: a stream says the name of its model") {
  ServedModelInfo other = demo_model();
  other.name = "other";
  RunningServer server({demo_model(), other});
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  const TestResponse response =
      ask(server, post_request("/v1/completions", R"({"model":"other","prompt":"x","stream":true})"));
  CHECK(sse_data(response.body).front().find(R"("model":"other")") != std::string::npos);
}

TEST_CASE("models: one that is unknown, or that can't do what is asked for, is told so on every endpoint") {
  RunningServer server;
  struct Row {
    std::string path, fields, unfit, message;
  };
  const std::string makes = R"(the model "minilm" makes embeddings; models that generate text: "demo")";
  const Row rows[] = {
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"hi"}])", "minilm", makes},
      {"/v1/completions", R"("prompt":"x")", "minilm", makes},
      {"/v1/responses", R"("input":"x")", "minilm", makes},
      {"/v1/embeddings", R"("input":"x")", "demo",
       R"(the model "demo" generates text; models that make embeddings: "minilm")"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.path);
    const auto with_model = [&](const std::string& name) {
      return ask(server, post_request(row.path, "{\"model\":\"" + name + "\"," + row.fields + "}"));
    };
    const TestResponse unfit = with_model(row.unfit), unknown = with_model("ada");
    CHECK(unfit.status == 400);
    CHECK(error_of(unfit).at("message").as_string() == boost::json::string_view(row.message));
    CHECK(error_of(unfit).at("param").as_string() == "model");
    CHECK(unknown.status == 404);
    CHECK(error_of(unknown).at("code").as_string() == "model_not_found");
    CHECK(error_of(unknown).at("message").as_string() ==
          R"(the model "ada" does not exist; this server has "demo", "minilm")");
  }
  CHECK(server.script().num_submitted() == 0);
  RunningServer text_only({demo_model()});
  CHECK(error_of(embed(text_only)).at("message").as_string() == "no model of this server makes embeddings");
}

TEST_CASE("models: the list and each entry say what a model can do") {
  RunningServer server;
  const auto list = boost::json::parse(ask(server, get_request("/v1/models")).body);
  REQUIRE(list.at("data").as_array().size() == 2);
  CHECK(list.at("data").at(0).at("id").as_string() == "demo");
  CHECK(list.at("data").at(1) == boost::json::parse(ask(server, get_request("/v1/models/minilm")).body));
  const auto nothing = ask(server, get_request("/v1/models/ada"));
  CHECK(nothing.status == 404);
  CHECK(error_of(nothing).at("message").as_string() ==
        R"(there is no such model; this server has "demo", "minilm")");
}

TEST_CASE("embeddings: what is refused before the engine has the errors of other endpoints, and is counted") {
  RunningServer server;
  const auto refused = [&] {
    const std::string text = server.metrics().expose();
    const std::string name = "troupe_requests_refused_total{model_name=\"demo\",reason=\"invalid\"} ";
    return text.substr(text.find(name) + name.size(), 1);
  };
  const TestResponse empty = embed(server, R"({"input":[""]})");
  CHECK(empty.status == 400);
  CHECK(error_of(empty).at("param").as_string() == "input[0]");
  CHECK(error_of(empty).at("type").as_string() == "invalid_request_error");
  CHECK(embed(server, "{").status == 400);
  CHECK(
      ask(server, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}").status ==
      415);
  CHECK(refused() == "3");
  const TestResponse method = ask(server, get_request("/v1/embeddings"));
  CHECK(method.status == 405);
  CHECK(method.field("Allow") == "POST, OPTIONS");
  CHECK(ask(server, "OPTIONS /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 204);
  CHECK(ask(server, get_request("/embeddings")).body.find("try /v1/embeddings") != std::string::npos);
  CHECK(server.script().num_submitted() == 0);
}

TEST_CASE("embeddings: what the engine refuses has its real status") {
  struct Row {
    ApiErrorKind kind;
    unsigned status;
    std::string code;
  };
  for (const Row& row : {Row{ApiErrorKind::kContextTooLong, 400, "context_length_exceeded"},
                         Row{ApiErrorKind::kOverloaded, 429, "overloaded"},
                         Row{ApiErrorKind::kWaitedTooLong, 429, "overloaded"},
                         Row{ApiErrorKind::kUnavailable, 503, "unavailable"},
                         Row{ApiErrorKind::kInternal, 500, "internal_error"}}) {
    RunningServer server;
    server.script().on_submit = [&](RequestId id) {
      server.script().deliver(id, Failed{{.kind = row.kind, .message = "why", .field = "input"}});
    };
    TestClient client(server.port());
    client.send(post_request("/v1/embeddings", kInput) + get_request("/ping"));
    const TestResponse response = client.read_response();
    CHECK(response.status == row.status);
    CHECK(error_of(response).at("code").as_string() == boost::json::string_view(row.code));
    CHECK(response.field("Retry-After").empty() == (row.status != 429 && row.status != 503));
    CHECK(client.read_response().status == 200);  // the connection is kept
  }
}

TEST_CASE("embeddings: vectors that are no numbers are the server's error, not broken JSON") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    RunningServer server;
    answer_all(server, [bad] { return Embedded{.vectors = {1, 2, 3, bad}, .size = 4, .prompt_tokens = 1}; });
    const TestResponse response = embed(server);
    CHECK(response.status == 500);
    CHECK(error_of(response).at("type").as_string() == "server_error");
  }
}

TEST_CASE("embeddings: requests on one connection are answered in order, among others") {
  RunningServer server;
  answer_all(server);
  TestClient client(server.port());
  const std::string request = post_request("/v1/embeddings", kInput);
  client.send(request + get_request("/version") + request);
  CHECK(client.read_response().body.find("\"embedding\"") != std::string::npos);
  CHECK(client.read_response().body.find("\"version\"") != std::string::npos);
  CHECK(client.read_response().body.find("\"embedding\"") != std::string::npos);
}

TEST_CASE("embeddings: a client that leaves cancels its request") {
  for (const bool is_reset : {false, true}) {
    RunningServer server;
    TestClient client(server.port());
    client.send(post_request("/v1/embeddings", kInput));
    const RequestId id = server.script().wait_for_request(1);
    if (is_reset) {
      client.reset();
    } else {
      client.close();
    }
    CHECK(server.script().wait_until_cancelled(id));
    server.script().deliver(id, two_vectors());  // too late; nobody is told
    answer_all(server);
    CHECK(embed(server).status == 200);
  }
}

TEST_CASE("embeddings: a drain refuses new ones and lets those under way finish, until the deadline") {
  RunningServer server;
  TestClient client(server.port()), late(server.port());
  client.send(post_request("/v1/embeddings", kInput));
  const RequestId id = server.script().wait_for_request(1);
  std::thread drain([&] { server.server().drain(std::chrono::seconds(10)); });
  CHECK(late.is_at_end());
  CHECK(embed(server).status == 503);
  server.script().deliver(id, two_vectors());
  CHECK(client.read_response().status == 200);
  drain.join();

  RunningServer other;
  TestClient waiting(other.port());
  waiting.send(post_request("/v1/embeddings", kInput));
  other.script().wait_for_request(1);
  other.server().drain(std::chrono::milliseconds(20));
  CHECK(waiting.read_response().status == 503);
  CHECK(other.script().wait_until_cancelled(1));
}

TEST_CASE("embeddings: the largest answer comes whole, in chunks, and the connection is kept") {
  RunningServer server({large_model()});
  answer_all(server, many_vectors);
  const Embedded sent = many_vectors();
  TestClient client(server.port());
  for (const std::string format : {"float", "base64"}) {
    client.send(post_request("/v1/embeddings", R"({"input":"x","encoding_format":")" + format + "\"}"));
    const TestResponse response = client.read_response();
    CHECK(response.status == 200);
    CHECK(response.field("Transfer-Encoding") == "chunked");
    CHECK(response.field("Content-Length").empty());
    const auto answer = boost::json::parse(response.body);
    const auto& data = answer.at("data").as_array();
    REQUIRE(data.size() == 2048);
    CHECK(data[2047].at("index").as_int64() == 2047);
    CHECK(answer.at("usage").at("total_tokens").as_int64() == 2048);
    if (format == "float") {
      const auto& last = data[2047].at("embedding").as_array();
      REQUIRE(last.size() == 384);
      CHECK(static_cast<float>(last[383].to_number<double>()) == sent.vectors.back());
    } else {
      CHECK(data[2047].at("embedding").as_string().size() == 2048);
    }
  }
  client.send(get_request("/ping"));
  CHECK(client.read_response().status == 200);
}

TEST_CASE("embeddings: a long answer over HTTP/1.0 ends with the connection") {
  RunningServer server({large_model()});
  answer_all(server, many_vectors);
  TestClient client(server.port());
  const std::string body = R"({"input":"x"})";
  client.send(
      "POST /v1/embeddings HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string all = client.read_to_end();
  const std::size_t end = all.find("\r\n\r\n");
  CHECK(all.substr(0, end).find("Transfer-Encoding") == std::string::npos);
  CHECK(all.substr(0, end).find("Connection: close") != std::string::npos);
  CHECK(boost::json::parse(all.substr(end + 4)).at("data").as_array().size() == 2048);
}

TEST_CASE("embeddings: a slow reader gets all of a long answer, and others are not held up") {
  RunningServer server({large_model()});
  answer_all(server, many_vectors);
  TestClient slow(server.port(), 4096), quick(server.port());
  slow.send(post_request("/v1/embeddings", R"({"input":"x"})"));
  slow.read_until("\"index\":1,");
  for (int i = 0; i < 3; ++i) {
    quick.send(get_request("/ping"));
    CHECK(quick.read_response().status == 200);
  }
  CHECK(slow.read_until("\r\n0\r\n\r\n").find("\"total_tokens\":2048}}") != std::string::npos);
}

TEST_CASE("embeddings: one that does not read at all is cut off, and logged as gone") {
  std::mutex mutex;
  std::set<std::string> lines;
  {
    RunningServer server({large_model()}, [&](ServerOptions& options) {
      options.limits.stall_timeout_ms = 50;
      options.access_log = [&](const AccessRecord& record) {
        const std::lock_guard lock(mutex);
        lines.insert(std::string(record.method) + " " + std::string(record.route) + " " +
                     std::to_string(record.status) + (record.was_submitted ? " submitted" : ""));
      };
    });
    answer_all(server, many_vectors);
    TestClient client(server.port(), 4096);
    client.send(post_request("/v1/embeddings", R"({"input":"x"})"));
    CHECK(eventually([&] {
      const std::lock_guard lock(mutex);
      return lines.contains("POST /v1/embeddings 499 submitted");
    }));
    TestClient other(server.port());
    other.send(post_request("/v1/embeddings", "{"));
    CHECK(other.read_response().status == 400);
    server.server().stop();
  }
  CHECK(lines.contains("POST /v1/embeddings 400"));
}

}  // namespace embeddings_test
