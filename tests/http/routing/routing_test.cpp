// SPDX-License-Identifier: Apache-2.0
#include "http/routing/router.hpp"

#include <string>

#include <doctest/doctest.h>

#include "http/wire/response_writer.hpp"

using namespace troupe;

TEST_CASE("router: each path has its route, with or without a query") {
  CHECK(match_route("/v1/chat/completions").route == Route::kChatCompletions);
  CHECK(match_route("/v1/completions?api-version=1").route == Route::kCompletions);
  CHECK(match_route("/v1/embeddings").route == Route::kEmbeddings);
  CHECK(match_route("/v1/messages?beta=true").route == Route::kMessages);
  CHECK(match_route("/v1/messages/count_tokens").route == Route::kCountTokens);
  CHECK(match_route("/tokenize").route == Route::kTokenize);
  CHECK(match_route("/detokenize").route == Route::kDetokenize);
  CHECK(match_route("/v1/models").route == Route::kModels);
  CHECK(match_route("/v1/models/a/b?x").route == Route::kModel);
  CHECK(match_route("/v1/models/a/b?x").rest == "a/b");
  CHECK(match_route("/health").route == Route::kHealth);
  CHECK(match_route("/health").audience == Audience::kAnybody);
  CHECK(match_route("/metrics").audience == Audience::kOperators);
  CHECK(match_route("/v1/models").audience == Audience::kClients);
  CHECK(match_route("/").route == Route::kPage);
  CHECK(match_route("/?x").rest.empty());
  CHECK(match_route("/page/a.js?x").route == Route::kPage);
  CHECK(match_route("/page/a.js?x").rest == "a.js");
}

TEST_CASE("router: keys are for all but probes and the page") {
  CHECK(needs_key(match_route("/v1/models"), Door::kApi));
  CHECK(needs_key(match_route("/metrics"), Door::kApi));
  CHECK(needs_key(match_route("/nothing"), Door::kApi));
  CHECK(!needs_key(match_route("/metrics"), Door::kMetrics));
  CHECK(!needs_key(match_route("/health"), Door::kApi));
  CHECK(!needs_key(match_route("/"), Door::kApi));
  CHECK(is_probe(match_route("/health")));
  CHECK(is_probe(match_route("/metrics")));
  CHECK(!is_probe(match_route("/")));
}

TEST_CASE("router: no other spelling of a path is the path, and unknown ones are not public") {
  for (const std::string_view path :
       {"", "//", "/page", "/page/", "//v1/models", "/v1//models", "/V1/models", "/v1/%6dodels",
        "/v1/models/", "/health/", "/./health", "/v1/../health", "/health%00", "/v1/chat/completions/",
        "v1/models", "/v1/responses/resp_1/stop", "/v1/responses/resp_1/"}) {
    CAPTURE(std::string(path));
    CHECK(match_route(path).route == Route::kUnknown);
    CHECK(match_route(path).audience == Audience::kClients);
    CHECK(match_route(path).name == "other");
  }
}

TEST_CASE("router: what is served through which door") {
  for (const std::string_view path : {"/v1/models", "/v1/responses/resp_1", "/metrics", "/traces", "/version",
                                      "/health", "/ping", "/openapi.json"})
    CHECK(is_served(match_route(path), Door::kApi));
  for (const std::string_view path : {"/metrics", "/traces", "/version", "/health", "/ready", "/live"})
    CHECK(is_served(match_route(path), Door::kMetrics));
  for (const std::string_view path : {"/v1/models", "/v1/responses/resp_1", "/", "/page/a.js", "/nothing"})
    CHECK(!is_served(match_route(path), Door::kMetrics));
  for (const std::string_view path : {"/health", "/ready", "/live"})
    CHECK(is_served(match_route(path), Door::kReserve));
  for (const std::string_view path : {"/metrics", "/traces", "/version", "/v1/models", "/"})
    CHECK(!is_served(match_route(path), Door::kReserve));
}

TEST_CASE("router: Ollama's paths are behind their own door, with all others but the page") {
  for (const std::string_view path : {"/api/version", "/api/tags", "/api/ps", "/api/show", "/api/chat",
                                      "/api/generate", "/api/embed", "/api/embeddings"}) {
    CAPTURE(std::string(path));
    CHECK(match_route(path, Door::kOllama).name == path);
    CHECK(is_served(match_route(path, Door::kOllama), Door::kOllama));
    CHECK(needs_key(match_route(path, Door::kOllama), Door::kOllama));
    CHECK(style_of(match_route(path, Door::kOllama), Door::kOllama) == ApiStyle::kOllama);
    for (const Door door : {Door::kApi, Door::kMetrics, Door::kReserve})
      CHECK(match_route(path, door).route == Route::kUnknown);
  }
  CHECK(match_route("/", Door::kOllama).route == Route::kOllamaRoot);
  CHECK(!needs_key(match_route("/", Door::kOllama), Door::kOllama));
  CHECK(is_served(match_route("/v1/models", Door::kOllama), Door::kOllama));
  CHECK(!is_served(match_route("/page/a.js", Door::kOllama), Door::kOllama));
  CHECK(style_of(match_route("/v1/models", Door::kOllama), Door::kOllama) == ApiStyle::kOpenAi);
  CHECK(style_of(match_route("/v1/messages", Door::kOllama), Door::kOllama) == ApiStyle::kAnthropic);
  CHECK(style_of(match_route("/nothing", Door::kOllama), Door::kOllama) == ApiStyle::kOllama);
  CHECK(style_of(match_route("/nothing"), Door::kApi) == ApiStyle::kOpenAi);
}

TEST_CASE("router: methods") {
  CHECK(is_allowed(match_route("/v1/completions"), "POST"));
  CHECK(!is_allowed(match_route("/v1/completions"), "GET"));
  CHECK(is_allowed(match_route("/health"), "HEAD"));
  CHECK(!is_allowed(match_route("/health"), "POST"));
  CHECK(!is_allowed(match_route("/nothing"), "GET"));
  CHECK(method_label("POST") == "POST");
  CHECK(method_label("CANARY") == "other");
}

TEST_CASE("response writer: an id is the client's if it is plain, and cut to its limit") {
  CHECK(checked_request_id("aZ09-_", 64) == "aZ09-_");
  CHECK(checked_request_id(std::string(70, 'a'), 64) == std::string(64, 'a'));
  CHECK(checked_request_id("a b", 64).empty());
  CHECK(checked_request_id("a\r\nX: y", 64).empty());
  CHECK(checked_request_id("é", 64).empty());
  CHECK(checked_request_id("", 64).empty());
}

TEST_CASE("response writer: fields of a reply") {
  std::string out;
  append_reply(out,
               {.request_id = "r",
                .cors_origin = "http://o",
                .keep_alive = false,
                .is_http_1_0 = false,
                .is_head = false},
               {.status = 429, .body = "{}", .retry_after_s = 3});
  CHECK(out.starts_with("HTTP/1.1 429 Too Many Requests\r\nDate: "));
  for (const std::string_view field :
       {"\r\nContent-Type: application/json\r\n", "\r\nX-Request-Id: r\r\n",
        "\r\nAccess-Control-Allow-Origin: http://o\r\n", "\r\nVary: Origin\r\n", "\r\nConnection: close\r\n",
        "\r\nRetry-After: 3\r\n"}) {
    CHECK(out.find(field) != std::string::npos);
  }
  CHECK(out.ends_with("\r\nContent-Length: 2\r\n\r\n{}"));
}

TEST_CASE("response writer: HEAD has the length without the body, 204 has neither") {
  std::string head, none;
  append_reply(
      head, {.request_id = "r", .cors_origin = {}, .keep_alive = true, .is_http_1_0 = false, .is_head = true},
      {.body = "abc"});
  append_reply(none, {.request_id = "r", .cors_origin = {}}, {.status = 204, .body = "abc"});
  CHECK(head.ends_with("\r\nContent-Length: 3\r\n\r\n"));
  CHECK(none.find("Content-Length") == std::string::npos);
  CHECK(none.ends_with("\r\n\r\n"));
}
