// SPDX-License-Identifier: Apache-2.0
#include "http/server/server.hpp"

#include <set>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "telemetry/tracing/tracer.hpp"
#include "tests/http/running_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace endpoints_test {
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

TEST_CASE("endpoints: an alias is found as the model that it stands for") {
  RunningServer server([](ServerOptions& options) { options.model_aliases = {"gpt-5"}; });
  CHECK(ask(server, get_request("/v1/models/gpt-5")).body ==
        ask(server, get_request("/v1/models/demo")).body);
  check_error(ask(server, get_request("/v1/models/gpt-4")), 404, "model_not_found");
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

TEST_CASE("endpoints: health says whether a restart would help, readiness whether to send requests") {
  struct Row {
    EngineState state;
    Trouble trouble;
    unsigned health, ready;
    std::string_view why_not_ready;
  };
  const Row rows[] = {
      {EngineState::kReady, Trouble::kNone, 200, 200, "ready"},
      {EngineState::kReady, Trouble::kReplacingDevice, 200, 503, "replacing_device"},
      {EngineState::kReady, Trouble::kDeviceHangs, 503, 503, "device_hangs"},
      {EngineState::kReady, Trouble::kEngineHangs, 503, 503, "engine_hangs"},
      {EngineState::kStarting, Trouble::kNone, 503, 503, "loading"},
      {EngineState::kDraining, Trouble::kNone, 200, 503, "draining"},
      {EngineState::kFailed, Trouble::kNone, 503, 503, "failed"},
  };
  for (const auto& row : rows) {
    RunningServer server;
    server.script().status = {.state = row.state, .trouble = row.trouble};
    const TestResponse health = ask(server, get_request("/health"));
    const TestResponse ready = ask(server, get_request("/ready"));
    CHECK(health.status == row.health);
    CHECK(ready.status == row.ready);
    CHECK(ready.body.starts_with("{\"status\":\"" + std::string(row.why_not_ready) + "\""));
    CHECK(ready.field("Retry-After").empty() == (row.ready == 200));
    CHECK(ask(server, get_request("/live")).status == 200);
  }
}

TEST_CASE("endpoints: errors have one shape and the right status") {
  RunningServer server;
  check_error(ask(server, get_request("/nothing")), 404, "not_found");
  check_error(ask(server, post_request("/v1/images/generations", "{}")), 404, "not_found");
  const TestResponse wrong_method = ask(server, get_request("/v1/chat/completions"));
  check_error(wrong_method, 405, "method_not_allowed");
  CHECK(wrong_method.field("Allow") == "POST, OPTIONS");
  CHECK(wrong_method.body.find("/v1/chat/completions takes POST, OPTIONS, not GET") != std::string::npos);
  const TestResponse no_path = ask(server, post_request("/v1/responses/resp_1/stop", "{}"));
  check_error(no_path, 404, "not_found");
  CHECK(no_path.body.find("nothing at /v1/responses/resp_1/stop") != std::string::npos);
  check_error(ask(server, "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 501, "not_implemented");
  check_error(ask(server, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"),
              415, "unsupported_media_type");
  check_error(ask(server, post_request("/v1/completions", "{}", "Content-Encoding: gzip\r\n")), 415, "");
  check_error(
      ask(server, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n"), 413,
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
  for (const std::string target : {"/v1/models", "/v1/models/demo", "/v1/chat/completions", "/v1/embeddings",
                                   "/page", "/page/", "//health", "/v1/../health", "/%68ealth", "/Health",
                                   "/health/", "/nothing", "/metrics", "/version", "/v1/responses/resp_1"}) {
    CAPTURE(target);
    for (const std::string key : {"", "Bearer ", "Bearer wrong!", "Bearer secre", "Bearer secrett", "secret",
                                  "Basic secret", "Bearer  secret"}) {
      const std::string field = key.empty() ? "" : "Authorization: " + key + "\r\n";
      const TestResponse response = ask(server, get_request(target, field));
      check_error(response, 401, "invalid_api_key");
      CHECK(response.field("WWW-Authenticate") == "Bearer");
    }
  }
  for (const std::string target : {"/health", "/ready", "/live", "/ping"}) {
    CHECK(ask(server, get_request(target)).status == 200);
  }
  for (const std::string target : {"/metrics", "/version", "/health"}) {
    CHECK(ask(server, get_request(target, "Authorization: Bearer secret\r\n")).status == 200);
  }
  CHECK(ask(server, get_request("/v1/models", "Authorization: bearer secret\r\n")).status == 200);
  CHECK(ask(server, get_request("/v1/models", "Authorization: Bearer secret\r\n")).status == 200);
}

TEST_CASE("endpoints: with keys, probes tell strangers nothing but the status") {
  for (const bool has_keys : {false, true}) {
    RunningServer server([&](ServerOptions& options) {
      if (has_keys) options.api_keys = {{"default", "secret"}};
    });
    server.script().status.num_waiting = 7;
    for (const std::string target : {"/health", "/ready"}) {
      CHECK((ask(server, get_request(target)).body.find("requests_waiting") == std::string::npos) ==
            has_keys);
      CHECK(ask(server, get_request(target, "Authorization: Bearer secret\r\n"))
                .body.find("\"requests_waiting\":7") != std::string::npos);
    }
    if (has_keys) CHECK(ask(server, get_request("/health")).body == R"({"status":"ok"})");
  }
}

TEST_CASE("endpoints: a key that is missing and one that is not known have different sentences") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  const auto none = ask(server, get_request("/v1/models"));
  const auto unknown = ask(server, get_request("/v1/models", "Authorization: Bearer other\r\n"));
  check_error(none, 401, "invalid_api_key");
  check_error(unknown, 401, "invalid_api_key");
  CHECK(none.body.find("an API key is required") != std::string::npos);
  CHECK(unknown.body.find("this API key is not known") != std::string::npos);
  CHECK(unknown.body.find("other") == std::string::npos);
}

TEST_CASE("endpoints: the port for metrics has them without a key, and nothing that is a client's") {
  RunningServer server([](ServerOptions& options) {
    options.api_keys = {{"default", "secret"}};
    options.metrics_port = 0;
  });
  const auto ask_metrics = [&](const std::string& request) {
    TestClient client(server.server().metrics_port());
    client.send(request);
    return client.read_response();
  };
  CHECK(server.server().metrics_port() != server.port());
  for (const std::string target : {"/metrics", "/version", "/health", "/ready", "/live"})
    CHECK(ask_metrics(get_request(target)).status == 200);
  for (const std::string target : {"/v1/models", "/v1/responses/resp_1", "/", "/v1/chat/completions"})
    check_error(ask_metrics(get_request(target, "Authorization: Bearer secret\r\n")), 404, "not_found");
  check_error(ask_metrics(post_request("/v1/chat/completions", kChat, "Authorization: Bearer secret\r\n")),
              404, "not_found");
  CHECK(server.script().num_submitted() == 0);
  check_error(ask_metrics("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421, "host_not_allowed");
  CHECK(RunningServer().server().metrics_port() == 0);
}

TEST_CASE("endpoints: spans of the last requests are their tenant's, and the operator's port has all") {
  Metrics metrics("traced");
  Tracer tracer({.max_recent_requests = 8}, metrics, {});
  RunningServer server([&](ServerOptions& options) {
    options.api_keys = {{"red", "secret"}, {"blue", "other"}};
    options.metrics_port = 0;
    options.tracer = &tracer;
  });
  for (const std::string tenant : {"red", "blue"}) {
    std::vector<Span> spans(1);
    spans[0].name = "chat of " + tenant;
    spans[0].end_unix_nanoseconds = 1000;
    tracer.record_request(tenant, std::move(spans), false);
  }
  const auto names = [](const TestResponse& response) {
    REQUIRE(response.status == 200);
    const auto json = boost::json::parse(response.body);
    std::string names;
    for (const auto& span : json.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array())
      names += std::string(span.at("name").as_string()) + ";";
    return names;
  };
  const std::string key = "Authorization: Bearer secret\r\n";
  check_error(ask(server, get_request("/traces")), 401, "invalid_api_key");
  CHECK(names(ask(server, get_request("/traces", key))) == "chat of red;");
  CHECK(names(ask(server, get_request("/traces?after=1000", key))).empty());
  CHECK(names(ask(server, get_request("/traces?limit=1&after=999", key))) == "chat of red;");
  TestClient operators(server.server().metrics_port());
  operators.send(get_request("/traces"));
  CHECK(names(operators.read_response()) == "chat of red;chat of blue;");
}

TEST_CASE("endpoints: spans are asked for by whole numbers, and refused where none are kept") {
  Metrics metrics("traced");
  Tracer tracer({.max_recent_requests = 8}, metrics, {});
  RunningServer server([&](ServerOptions& options) { options.tracer = &tracer; });
  for (const std::string query : {"limit=0", "limit=1001", "limit=", "limit=-1", "limit=2x", "after=-1",
                                  "after=99999999999999999999", "after=now", "after=1.5"}) {
    CAPTURE(query);
    const TestResponse response = ask(server, get_request("/traces?" + query));
    check_error(response, 400, "");
    CHECK(response.body.find(query.substr(0, 5) + " must be") != std::string::npos);
  }
  CHECK(ask(server, get_request("/traces?limit=1000&unknown=1")).status == 200);
  check_error(ask(server, post_request("/traces", kChat)), 405, "");
  const TestResponse none = ask(RunningServer(), get_request("/traces"));
  check_error(none, 404, "");
  CHECK(none.body.find("--trace-recent-requests") != std::string::npos);
}

TEST_CASE("endpoints: the port for metrics answers while clients have all the connections") {
  RunningServer server([](ServerOptions& options) {
    options.metrics_port = 0;
    options.limits.max_connections = 1;
  });
  TestClient first(server.port());
  first.send(get_request("/ping"));
  CHECK(first.read_response().status == 200);
  TestClient scraper(server.server().metrics_port());
  for (int i = 0; i < 2; ++i) {
    scraper.send(get_request("/metrics"));
    CHECK(scraper.read_response().status == 200);
  }
}

TEST_CASE("endpoints: silent connections do not keep a scraper out; the one silent longest leaves") {
  RunningServer server([](ServerOptions& options) {
    options.metrics_port = 0;
    options.io_threads = 2;
    options.limits.metrics_connections = 2;
  });
  const auto is_scraped = [](TestClient& client) {
    client.send(get_request("/metrics"));
    return client.read_response().status == 200;
  };
  TestClient first(server.server().metrics_port());
  CHECK(is_scraped(first));
  TestClient silent(server.server().metrics_port());
  CHECK(eventually([&] { return server.metric("troupe_http_connections") == "2"; }));
  CHECK(is_scraped(first));
  TestClient another(server.server().metrics_port());
  CHECK(is_scraped(another));
  CHECK(silent.is_at_end());
  CHECK(is_scraped(first));
}

TEST_CASE("endpoints: without keys no page that calls itself by another name gets anything") {
  RunningServer server([](ServerOptions& options) { options.allowed_hosts = {"gpu-box"}; });
  const auto with_host = [&](const std::string& line, const std::string& host) {
    return ask(server, line + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const std::string line : {"GET /v1/models", "GET /v1/responses/resp_1", "DELETE /v1/responses/resp_1",
                                 "GET /metrics", "GET /health", "OPTIONS /v1/models", "GET /nothing"}) {
    CAPTURE(line);
    const auto refused = with_host(line, "evil.example:8000");
    check_error(refused, 421, "host_not_allowed");
    CHECK(refused.body.find("--allowed-hosts") != std::string::npos);
    CHECK(refused.body.find("evil.example:8000") != std::string::npos);
    for (const std::string host : {"localhost:8000", "127.0.0.1", "[::1]:8000", "gpu-box:1"})
      CHECK(with_host(line, host).status != 421);
  }
  check_error(
      ask(server,
          "POST /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n"
          "Content-Length: 2\r\n\r\n{}"),
      421, "host_not_allowed");
  CHECK(with_host("GET /ping", "evil\xFF\"").body.find("for evil?\\\";") != std::string::npos);
  CHECK(with_host("GET /ping", "").status == 421);
  CHECK(ask(server, "GET /ping HTTP/1.0\r\n\r\n").status == 200);  // no browser
}

TEST_CASE("endpoints: any name will do with keys, or where the server was opened to the network") {
  const std::string request =
      "GET /v1/models HTTP/1.1\r\nHost: chat.example\r\nAuthorization: Bearer k\r\n\r\n";
  CHECK(ask(RunningServer([](ServerOptions& options) {
              options.api_keys = {{"default", "k"}};
            }),
            request)
            .status == 200);
  CHECK(ask(RunningServer([](ServerOptions& options) { options.allow_public_without_key = true; }), request)
            .status == 200);
}

TEST_CASE(
    "endpoints: names that were listed are the only ones where the server was opened to the network, too") {
  RunningServer server([](ServerOptions& options) {
    options.allow_public_without_key = true;
    options.allowed_hosts = {"onlythis.example"};
  });
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  const auto post_as = [&](const std::string& host) {
    return ask(server, "POST /v1/chat/completions HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
                           "\r\nContent-Type: application/json\r\nContent-Length: " +
                           std::to_string(kChat.size()) + "\r\n\r\n" + std::string(kChat));
  };
  check_error(post_as("evil.example:8000"), 421, "host_not_allowed");
  CHECK(server.script().num_submitted() == 0);
  for (const std::string host : {"onlythis.example:8000", "localhost:8000", "127.0.0.1:8000"})
    CHECK(post_as(host).status == 200);
}

TEST_CASE("endpoints: the port for metrics checks names wherever it listens, with and without keys") {
  for (const std::string key : {"", "secret"}) {
    RunningServer server([&](ServerOptions& options) {
      options.host = "0.0.0.0";
      options.metrics_port = 0;
      options.allowed_hosts = {"gpu-box"};
      options.allow_public_without_key = key.empty();
      if (!key.empty()) options.api_keys = {{"default", KeyDigest(key)}};
    });
    const auto status = [&](const std::string& host) {
      TestClient client(server.server().metrics_port());
      client.send("GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
      return client.read_response().status;
    };
    CHECK(status("evil.example:9464") == 421);
    for (const std::string host : {"localhost:9464", "gpu-box:9464", "192.0.2.1:9464"})
      CHECK(status(host) == 200);
  }
}

TEST_CASE("endpoints: the port for metrics checks names without a list, too") {
  RunningServer server([](ServerOptions& options) {
    options.metrics_port = 0;
    options.allow_public_without_key = true;
  });
  TestClient client(server.server().metrics_port());
  client.send("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(client.read_response().status == 421);
}

TEST_CASE("endpoints: without keys no foreign page changes anything") {
  RunningServer server([](ServerOptions& options) { options.cors_origins = {"https://chat.example"}; });
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  const auto post_from = [&](const std::string& origin) {
    return ask(server, post_request("/v1/chat/completions", kChat,
                                    origin.empty() ? "" : "Origin: " + origin + "\r\n"));
  };
  for (const std::string origin :
       {"http://evil.example", "null", "http://localhost:3000", "chrome-extension://abc"}) {
    const auto refused = post_from(origin);
    check_error(refused, 403, "origin_not_allowed");
    CHECK(refused.body.find("--cors-origins") != std::string::npos);
    CHECK(ask(server,
              "DELETE /v1/responses/resp_1 HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin + "\r\n\r\n")
              .status == 403);
    CHECK(ask(server, get_request("/v1/models", "Origin: " + origin + "\r\n"))
              .field("Access-Control-Allow-Origin")
              .empty());
  }
  CHECK(server.script().num_submitted() == 0);
  for (const std::string origin : {"", "http://localhost", "https://localhost", "https://chat.example"})
    CHECK(post_from(origin).status == 200);

  RunningServer keyed([](ServerOptions& options) { options.api_keys = {{"default", "k"}}; });
  keyed.script().on_submit = [&](RequestId id) { keyed.script().answer(id, {"x"}); };
  CHECK(ask(keyed, post_request("/v1/chat/completions", kChat,
                                "Origin: http://evil.example\r\nAuthorization: Bearer k\r\n"))
            .status == 200);  // a page does not have the key
}

TEST_CASE("endpoints: a path that does not exist is named, and /v1 where it was left out") {
  RunningServer server;
  const auto message = [&](const std::string& target) { return ask(server, get_request(target)).body; };
  CHECK(message("/nothing?secret=1").find("\"there is nothing at /nothing\"") != std::string::npos);
  CHECK(message("/chat/completions").find("nothing at /chat/completions; try /v1/chat/completions\"") !=
        std::string::npos);
  CHECK(message("/models").find("try /v1/models") != std::string::npos);
  CHECK(message("/\"<x>").find("nothing at /\\\"<x>\"") != std::string::npos);
  CHECK(message("/" + std::string(3000, 'a')).size() < 400);
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
    return ask(server, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
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
  client.send("HEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n" + get_request("/ping"));
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
      if (!key.empty()) options.api_keys = {{"default", KeyDigest(key)}};
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
    ask(server, "CANARY /CANARY HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: three\r\n\r\n");
    server.server().stop();
  }
  CHECK(lines ==
        std::set<std::string>{"GET other 404 one", "GET /v1/models/{id} 404 two", "other other 501 three"});
}

}  // namespace endpoints_test
