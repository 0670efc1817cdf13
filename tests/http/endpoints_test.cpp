// SPDX-License-Identifier: Apache-2.0
#include "http/server.hpp"

#include <set>

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

// OpenAI's error object, with its four keys.
void check_error(const TestResponse& response, unsigned status, std::string_view code) {
  CHECK(response.status == status);
  CHECK(response.field("Content-Type") == "application/json");
  const auto error = boost::json::parse(response.body).at("error").as_object();
  CHECK(error.size() == 4);
  CHECK(error.at("message").is_string());
  CHECK(error.contains("param"));
  CHECK(error.contains("type"));
  if (!code.empty())
    CHECK(error.at("code").as_string() == boost::json::string_view(code.data(), code.size()));
}

constexpr std::string_view kChat = R"({"messages":[{"role":"user","content":"hi"}]})";

}  // namespace

TEST_CASE("endpoints: models, version and probes") {
  RunningServer server([](ServerOptions& options) { options.version = "1.2"; });
  CHECK(ask(server, get_request("/v1/models")).body.find(R"("id":"demo")") != std::string::npos);
  CHECK(ask(server, get_request("/v1/models/demo")).body.find(R"("object":"model")") != std::string::npos);
  check_error(ask(server, get_request("/v1/models/../etc")), 404, "model_not_found");
  CHECK(ask(server, get_request("/version")).body == R"({"version":"1.2"})");
  for (const std::string_view path : {"/health", "/ready", "/live", "/ping"}) {
    const TestResponse response = ask(server, get_request(path));
    CHECK(response.status == 200);
    CHECK(boost::json::parse(response.body).is_object());
  }
  const TestResponse metrics = ask(server, get_request("/metrics"));
  CHECK(metrics.field("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(metrics.body.find("troupe_") != std::string::npos);
}

TEST_CASE("endpoints: metrics are protobuf for who asks for it, and text for who does not") {
  RunningServer server;
  const std::string wanted =
      "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
      "text/plain;q=0.5\r\n";
  const TestResponse binary = ask(server, get_request("/metrics", wanted));
  CHECK(binary.status == 200);
  CHECK(binary.field("Content-Type") ==
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited");
  CHECK(binary.body.find("troupe_num_requests_running") != std::string::npos);
  CHECK(binary.body.find("# HELP") == std::string::npos);
  for (const std::string accept : {"Accept: application/json\r\n", "Accept: */*\r\n"}) {
    const TestResponse text = ask(server, get_request("/metrics", accept));
    CHECK(text.status == 200);
    CHECK(text.field("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  }
}

TEST_CASE("endpoints: refused requests are counted by reason, and no request twice") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  const std::string key = "Authorization: Bearer secret\r\n";
  const auto refused = [&](const std::string& reason) {
    const std::string text = server.metrics().expose();
    const std::string name = "troupe_requests_refused_total{model_name=\"demo\",reason=\"" + reason + "\"} ";
    return text.substr(text.find(name) + name.size(), 1);
  };
  ask(server, post_request("/v1/chat/completions", kChat));
  ask(server, get_request("/v1/models"));  // no request for text
  CHECK(refused("unauthorized") == "1");
  ask(server, post_request("/v1/chat/completions", "{", key));
  ask(server, post_request("/v1/chat/completions", R"({"messages":[],"max_tokens":"x"})", key));
  CHECK(refused("invalid") == "2");
  for (const char* reason : {"too_long", "overload", "queue_time", "draining", "unavailable"})
    CHECK(refused(reason) == "0");
}

TEST_CASE("endpoints: the ready gauge says what /ready says") {
  RunningServer server;
  const auto shown = [&] {
    const std::string text = ask(server, get_request("/metrics")).body;
    const std::string name = "\ntroupe_ready{model_name=\"demo\"} ";
    return text.substr(text.find(name) + name.size(), 1);
  };
  server.script().status.state = EngineState::kReady;
  CHECK(shown() == "1");
  server.script().status.state = EngineState::kStarting;
  CHECK(shown() == "0");
}

TEST_CASE("endpoints: health follows the engine's progress, readiness its state") {
  struct Row {
    EngineState state;
    bool tokens_move;
    unsigned health, ready;
  };
  const Row rows[] = {
      {EngineState::kReady, true, 200, 200},    {EngineState::kReady, false, 503, 503},
      {EngineState::kStarting, true, 503, 503}, {EngineState::kDraining, true, 200, 503},
      {EngineState::kFailed, true, 503, 503},
  };
  for (const auto& row : rows) {
    RunningServer server;
    server.script().status = {.state = row.state, .tokens_move = row.tokens_move};
    const TestResponse health = ask(server, get_request("/health"));
    const TestResponse ready = ask(server, get_request("/ready"));
    CHECK(health.status == row.health);
    CHECK(ready.status == row.ready);
    CHECK(ready.field("Retry-After").empty() == (row.ready == 200));
    CHECK(ask(server, get_request("/live")).status == 200);
  }
}

TEST_CASE("endpoints: errors have one shape and the right status") {
  RunningServer server;
  check_error(ask(server, get_request("/")), 404, "not_found");
  check_error(ask(server, post_request("/v1/embeddings", "{}")), 404, "not_found");
  const TestResponse wrong_method = ask(server, get_request("/v1/chat/completions"));
  check_error(wrong_method, 405, "method_not_allowed");
  CHECK(wrong_method.field("Allow") == "POST, OPTIONS");
  check_error(ask(server, "BREW / HTTP/1.1\r\nHost: h\r\n\r\n"), 501, "not_implemented");
  check_error(ask(server, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"), 415,
              "unsupported_media_type");
  check_error(ask(server, post_request("/v1/completions", "{}", "Content-Encoding: gzip\r\n")), 415, "");
  check_error(ask(server, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n"), 413,
              "request_too_large");
  check_error(ask(server, "GET / HTTP/1.1\r\n\r\n"), 400, "");
  check_error(ask(server, post_request("/v1/chat/completions", "{")), 400, "");
  check_error(ask(server, post_request("/v1/chat/completions", R"({"model":"x","messages":[]})")), 404,
              "model_not_found");
  CHECK(server.script().num_submitted() == 0);
  CHECK(server.metric("troupe_num_requests_running") != "1");
}

TEST_CASE("endpoints: what the engine refuses has its real status, streamed or not") {
  struct Row {
    ApiErrorKind kind;
    unsigned status;
    std::string code;
  };
  for (const Row& row : {Row{ApiErrorKind::kContextTooLong, 400, "context_length_exceeded"},
                         Row{ApiErrorKind::kOverloaded, 429, "overloaded"},
                         Row{ApiErrorKind::kUnavailable, 503, "unavailable"},
                         Row{ApiErrorKind::kInternal, 500, "internal_error"}}) {
    for (const std::string stream : {"false", "true"}) {
      RunningServer server;
      server.script().on_submit = [&](RequestId id) {
        server.script().deliver(id, Failed{{.kind = row.kind, .message = "why", .field = "messages"}});
      };
      const std::string body = std::string(kChat.substr(0, kChat.size() - 1)) + ",\"stream\":" + stream + "}";
      const TestResponse response = ask(server, post_request("/v1/chat/completions", body));
      check_error(response, row.status, row.code);
      const bool comes_back = row.status == 429 || row.status == 503;
      CHECK(response.field("Retry-After").empty() == !comes_back);
    }
  }
}

TEST_CASE("endpoints: a whole chat answer and a whole completion") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) {
    server.script().answer(id, {"Hel", "", "lo"}, FinishReason::kLength);
  };
  const auto chat = boost::json::parse(ask(server, post_request("/v1/chat/completions", kChat)).body);
  const auto& choice = chat.at("choices").at(0);
  CHECK(choice.at("message").at("content").as_string() == "Hello");
  CHECK(choice.at("message").at("role").as_string() == "assistant");
  CHECK(choice.at("finish_reason").as_string() == "length");
  CHECK(chat.at("usage").at("total_tokens").as_int64() == 8);
  CHECK(std::string(chat.at("id").as_string().c_str()).starts_with("chatcmpl-"));
  CHECK(server.script().submitted(1).request.id == chat.at("id").as_string().c_str());
  const auto text =
      boost::json::parse(ask(server, post_request("/v1/completions", R"({"prompt":"x"})")).body);
  CHECK(text.at("choices").at(0).at("text").as_string() == "Hello");
  CHECK(text.at("object").as_string() == "text_completion");
}

TEST_CASE("endpoints: with a key, every path but the public ones asks for it") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  for (const std::string target : {"/v1/models", "/v1/models/demo", "/v1/chat/completions", "/", "//health",
                                   "/v1/../health", "/%68ealth", "/Health", "/health/", "/nothing"}) {
    CAPTURE(target);
    for (const std::string key : {"", "Bearer ", "Bearer wrong!", "Bearer secre", "Bearer secrett", "secret",
                                  "Basic secret", "Bearer  secret"}) {
      const std::string field = key.empty() ? "" : "Authorization: " + key + "\r\n";
      const TestResponse response = ask(server, get_request(target, field));
      check_error(response, 401, "invalid_api_key");
      CHECK(response.field("WWW-Authenticate") == "Bearer");
    }
  }
  for (const std::string target : {"/health", "/ready", "/live", "/ping", "/metrics", "/version"}) {
    CHECK(ask(server, get_request(target)).status == 200);
  }
  CHECK(ask(server, get_request("/v1/models", "Authorization: bearer secret\r\n")).status == 200);
  CHECK(ask(server, get_request("/v1/models", "Authorization: Bearer secret\r\n")).status == 200);
}

TEST_CASE("endpoints: request ids are echoed if plain, made if not") {
  RunningServer server;
  CHECK(ask(server, get_request("/ping", "X-Request-Id: my-id_1\r\n")).field("X-Request-Id") == "my-id_1");
  const std::string made = ask(server, get_request("/ping", "X-Request-Id: a b\r\n")).field("X-Request-Id");
  const std::string other = ask(server, get_request("/ping")).field("X-Request-Id");
  CHECK(made.size() == 20);
  CHECK(made != other);
}

TEST_CASE("endpoints: browsers from allowed origins may ask, others may not") {
  RunningServer server([](ServerOptions& options) {
    options.cors_origins = {"http://a"};
    options.api_keys = {{"default", "k"}};
  });
  const auto preflight = [&](const std::string& origin) {
    return ask(server, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\nOrigin: " + origin +
                           "\r\nAccess-Control-Request-Method: POST\r\n"
                           "Access-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n");
  };
  const TestResponse allowed = preflight("http://a");
  CHECK(allowed.status == 204);
  CHECK(allowed.field("Access-Control-Allow-Origin") == "http://a");
  CHECK(allowed.field("Access-Control-Allow-Methods") == "POST, OPTIONS");
  CHECK(allowed.field("Access-Control-Allow-Headers") == "authorization,x-stainless-os");
  const TestResponse other = preflight("http://b");
  CHECK(other.status == 401);
  CHECK(other.field("Access-Control-Allow-Origin").empty());
  CHECK(ask(server, get_request("/ping", "Origin: http://a\r\n")).field("Access-Control-Allow-Origin") ==
        "http://a");
}

TEST_CASE("endpoints: HEAD is GET without the body") {
  RunningServer server;
  TestClient client(server.port());
  client.send("HEAD /version HTTP/1.1\r\nHost: h\r\n\r\n" + get_request("/ping"));
  const std::string all = client.read_until("\"ok\"}");
  CHECK(all.find("\r\n\r\nHTTP/1.1 200 OK") != std::string::npos);
}

TEST_CASE("server: a port in use is named; an open door without a key is refused") {
  RunningServer first;
  const std::string port = std::to_string(first.port());
  std::string message;
  try {
    RunningServer second([&](ServerOptions& options) { options.port = first.port(); });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  CHECK(message == "cannot listen on 127.0.0.1:" + port + ": the port is in use by another process");
  const auto exposed = [](bool allowed, const std::string& key) {
    RunningServer server([&](ServerOptions& options) {
      options.host = "0.0.0.0";
      if (!key.empty()) options.api_keys = {{"default", key}};
      options.allow_public_without_key = allowed;
    });
  };
  CHECK_THROWS_AS(exposed(false, ""), std::runtime_error);
  CHECK_NOTHROW(exposed(true, ""));
  CHECK_NOTHROW(exposed(false, "key"));
  CHECK_THROWS_AS(RunningServer([](ServerOptions& options) { options.host = "no address"; }),
                  std::runtime_error);
}

TEST_CASE("server: the access log has labels and ids, never what a client wrote") {
  std::mutex mutex;
  std::set<std::string> lines;
  {
    RunningServer server([&](ServerOptions& options) {
      options.access_log = [&](const AccessRecord& record) {
        const std::lock_guard lock(mutex);
        lines.insert(std::string(record.method) + " " + std::string(record.route) + " " +
                     std::to_string(record.status) + " " + std::string(record.request_id));
      };
    });
    ask(server, get_request("/CANARY?CANARY", "X-Request-Id: one\r\n"));
    ask(server, get_request("/v1/models/CANARY", "X-Request-Id: two\r\n"));
    ask(server, "CANARY / HTTP/1.1\r\nHost: h\r\nX-Request-Id: three\r\n\r\n");
    server.server().stop();
  }
  CHECK(lines ==
        std::set<std::string>{"GET other 404 one", "GET /v1/models/{id} 404 two", "other other 501 three"});
}
