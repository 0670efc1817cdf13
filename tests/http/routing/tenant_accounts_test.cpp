// SPDX-License-Identifier: Apache-2.0
#include "http/routing/tenant_accounts.hpp"

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include <string>

#include "http/api/answers/limit_fields.hpp"
#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::string_view kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr std::string_view kStreamedChat = R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";

std::function<void(ServerOptions&)> with_limits(const TenantLimits& limits) {
  return [limits](ServerOptions& options) {
    options.api_keys = {{"alice", "a"}, {"bob", "b"}};
    options.tenant_limits.by_tenant["alice"] = limits;
  };
}

std::string chat_of(const std::string& key, std::string_view body = kChat) {
  return post_request("/v1/chat/completions", body, "Authorization: Bearer " + key + "\r\n");
}

std::string code_of(const TestResponse& response) {
  return boost::json::parse(response.body).at("error").at("code").as_string().c_str();
}

}  // namespace

TEST_CASE("tenant limits: a part of the cache that is taken back bounds its tenant's pages no more") {
  Metrics metrics("m");
  ServerOptions options;
  options.api_keys = {{"alice", "a"}, {"bob", "b"}};
  options.tenant_limits.by_tenant["alice"] = {.cache_share = 0.25};
  TenantAccounts accounts(metrics, options);
  const auto bound = accounts.find("alice")->cache_quota();
  CHECK(bound.id != kNoQuota);
  CHECK(bound.share == 0.25);
  options.tenant_limits.by_tenant.clear();
  accounts.replace(options);
  const auto unbound = accounts.find("alice")->cache_quota();
  CHECK(unbound.id == bound.id);  // of the pages that are there
  CHECK(unbound.share == 0);
  CHECK(accounts.find("bob")->cache_quota().id == kNoQuota);
}

TEST_CASE("tenant limits: one request more than may be under way is 429, another tenant's is not") {
  RunningServer server(with_limits({.max_requests = 1}));
  TestClient first(server.port()), second(server.port()), other(server.port());
  first.send(chat_of("a"));
  const RequestId id = server.script().wait_for_request(1);
  second.send(chat_of("a"));
  const TestResponse refused = second.read_response();
  CHECK(refused.status == 429);
  CHECK(code_of(refused) == "rate_limit_exceeded");
  CHECK(refused.field("Retry-After") == "1");
  CHECK(refused.field("x-ratelimit-limit-requests") == "1");
  CHECK(refused.field("x-ratelimit-remaining-requests") == "0");
  CHECK(server.metrics().expose().find("reason=\"tenant_limit\"} 1") != std::string::npos);
  other.send(chat_of("b"));
  const RequestId others = server.script().wait_for_request(2);
  server.script().answer(id, {"x"});
  const TestResponse answered = first.read_response();
  CHECK(answered.status == 200);
  CHECK(answered.field("x-ratelimit-remaining-requests") == "1");
  server.script().answer(others, {"x"});
  CHECK(other.read_response().field("x-ratelimit-limit-requests").empty());
  second.send(chat_of("a"));
  server.script().answer(server.script().wait_for_request(3), {"x"});
  CHECK(second.read_response().status == 200);
}

TEST_CASE("tenant limits: who has used up a minute's tokens is told when to come again") {
  RunningServer server(with_limits({.tokens_per_minute = 600, .burst_tokens = 100}));  // 10 a second
  TestClient client(server.port());
  client.send(chat_of("a", kStreamedChat));
  const RequestId id = server.script().wait_for_request(1);
  const auto tab = server.script().submitted(id).request.tab;
  REQUIRE(tab);
  CHECK_FALSE(tab->reserve(40, 500, std::chrono::steady_clock::now()));
  server.script().deliver(id, Accepted{.prompt_tokens = 40});
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.find("x-ratelimit-limit-tokens: 600\r\n") != std::string::npos);
  CHECK(head.find("x-ratelimit-reset-tokens: ") != std::string::npos);
  tab->use(360, std::chrono::steady_clock::now());  // 300 of debt: half a minute
  server.script().answer(id, {"x"});
  client.read_until("[DONE]");
  TestClient again(server.port());
  again.send(chat_of("a"));
  const TestResponse refused = again.read_response();
  CHECK(refused.status == 429);
  CHECK(refused.field("x-ratelimit-remaining-tokens") == "0");
  const int seconds = std::stoi(refused.field("Retry-After"));
  CHECK(seconds <= 31);
  CHECK(seconds >= 20);  // unless the test took ten seconds
  CHECK(server.metrics().expose().find("troupe_by_tenant_refused_total{limit=\"tokens_per_minute\",model_"
                                       "name=\"demo\",tenant=\"alice\"} 1") != std::string::npos);
}

TEST_CASE("tenant limits: new ones hold from the next request on, and know of those under way") {
  RunningServer server(with_limits({}));
  TestClient first(server.port()), second(server.port());
  first.send(chat_of("a"));
  const RequestId id = server.script().wait_for_request(1);
  ServerOptions options;
  with_limits({.max_requests = 1})(options);
  server.server().replace_access(options);
  second.send(chat_of("a"));
  CHECK(second.read_response().status == 429);
  server.script().answer(id, {"x"});
  CHECK(first.read_response().status == 200);
}

TEST_CASE("tenant limits: a client that leaves makes room for its tenant's next request") {
  RunningServer server(with_limits({.max_requests = 1}));
  {
    TestClient client(server.port());
    client.send(chat_of("a"));
    server.script().wait_for_request(1);
  }
  REQUIRE(server.script().wait_until_cancelled(1));
  server.script().deliver(
      1, Finished{.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}});
  TestClient client(server.port());
  client.send(chat_of("a"));
  server.script().answer(server.script().wait_for_request(2), {"x"});
  CHECK(client.read_response().status == 200);
}

TEST_CASE("tenant limits: embeddings count among requests") {
  RunningServer server(with_limits({.max_requests = 1}));
  TestClient client(server.port()), second(server.port());
  const std::string request =
      post_request("/v1/embeddings", R"({"model":"minilm","input":"hi"})", "Authorization: Bearer a\r\n");
  client.send(request);
  server.script().wait_for_request(1);
  second.send(request);
  CHECK(second.read_response().status == 429);
}

TEST_CASE("limit fields: times are written as OpenAI writes them") {
  using namespace std::chrono_literals;
  CHECK(duration_text(0ns) == "0ms");
  CHECK(duration_text(1ns) == "1ms");
  CHECK(duration_text(1500ms) == "1.5s");
  CHECK(duration_text(1050ms) == "1.05s");
  CHECK(duration_text(6min) == "6m0s");
  CHECK(duration_text(1h + 2min + 3s) == "1h2m3s");
  CHECK(duration_text(59999999us) == "1m0s");
}
