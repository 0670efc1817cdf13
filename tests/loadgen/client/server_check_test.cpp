// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_check.hpp"

#include <doctest/doctest.h>

#include <map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/machine.hpp"
#include "loadgen/client/server/server_sampler.hpp"
#include "tests/loadgen/client/scripted_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe::loadgen;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// Answers by path, 404 where nothing is said.
class PathServer {
 public:
  explicit PathServer(std::map<std::string, ScriptedAnswer> answers)
      : answers_(std::move(answers)), server_([this](const ScriptedExchange& request, std::size_t) {
          const auto from = request.head.find(' ') + 1;
          const auto path = request.head.substr(from, request.head.find(' ', from) - from);
          const auto found = answers_.find(path);
          return found == answers_.end() ? whole_response("404 Not Found", "") : found->second;
        }) {}

  ServerAddress address() const { return {.host = "127.0.0.1", .port = server_.port(), .prefix = ""}; }
  ScriptedServer& server() { return server_; }

 private:
  std::map<std::string, ScriptedAnswer> answers_;
  ScriptedServer server_;
};

ScriptedAnswer ok(const std::string& body) { return whole_response("200 OK", body); }

std::uint16_t closed_port() {
  ScriptedServer server([](const ScriptedExchange&, std::size_t) { return ScriptedAnswer{}; });
  return server.port();
}

}  // namespace

TEST_CASE("server address: host, port and prefix of a URL") {
  const auto plain = parse_server_address("http://example.org");
  CHECK(plain.host == "example.org");
  CHECK(plain.port == 80);
  CHECK(plain.url() == "http://example.org");
  const auto full = parse_server_address("http://[::1]:8000/api/v1/");
  CHECK(full.host == "::1");
  CHECK(full.port == 8000);
  CHECK(full.prefix == "/api");
  CHECK(full.host_field() == "[::1]:8000");
  const auto encrypted = parse_server_address("https://example.org/v1");
  CHECK(encrypted.is_https);
  CHECK(encrypted.port == 443);
  CHECK(encrypted.url() == "https://example.org");
  CHECK(parse_server_address("http://127.0.0.1:8000/v1").url() == "http://127.0.0.1:8000");
}

TEST_CASE("server address: what is no address is named") {
  for (const char* wrong :
       {"", "localhost:8000", "https://", "ftp://x", "http://", "http://:80", "http://x:0", "http://x:70000",
        "http://x:80x", "http://x\r\nEvil: 1", "http://x y", "ftp://x"})
    CHECK_THROWS_WITH_AS(parse_server_address(wrong),
                         doctest::Contains("expected a URL like http://127.0.0.1:8000"), std::runtime_error);
}

TEST_CASE("server check: nothing listens, no answer, and not ready are told apart") {
  const ServerAddress nobody{.host = "127.0.0.1", .port = closed_port(), .prefix = ""};
  CHECK_THROWS_WITH_AS(check_health(nobody), doctest::Contains("nothing listens there (connection refused)"),
                       ServerUnreachable);
  PathServer silent({{"/health", {.steps = {}, .end = ScriptedAnswer::End::kClose}}});
  CHECK_THROWS_WITH_AS(check_health(silent.address()), doctest::Contains("closed without an answer"),
                       ServerUnreachable);
  PathServer hanging({{"/health", {.steps = {}, .end = ScriptedAnswer::End::kHang}}});
  CHECK_THROWS_WITH_AS(
      http_exchange(hanging.address(), {.path = "/health", .api_key = {}, .json = {}, .timeout = 20ms}),
      doctest::Contains("no answer in time"), ServerUnreachable);
  PathServer loading({{"/health", whole_response("503 Busy", R"({"error":{"message":"Loading model"}})")}});
  CHECK_THROWS_WITH_AS(check_health(loading.address()), doctest::Contains("got 503: Loading model"),
                       ServerUnreachable);
  PathServer without({});
  CHECK_NOTHROW(check_health(without.address()));
}

TEST_CASE("server check: a server that takes connections and never says a word is left when the time is up") {
  boost::asio::io_context io;
  const boost::asio::ip::tcp::acceptor silent(io, {boost::asio::ip::address_v4::loopback(), 0});
  ServerAddress address{.host = "127.0.0.1", .port = silent.local_endpoint().port(), .prefix = ""};
  SUBCASE("by http") {}
  SUBCASE("by https, where the handshake has no end") {
    address.is_https = true;
    address.trust.is_insecure = true;
  }
  CHECK_THROWS_WITH_AS(
      http_exchange(address, {.path = "/health", .api_key = {}, .json = {}, .timeout = 20ms}),
      doctest::Contains("no answer in time"), ServerUnreachable);
}

TEST_CASE("server check: the model is the wanted one, or the first, or the error says which there are") {
  PathServer server({{"/v1/models", ok(R"({"object":"list","data":[{"id":"big"},{"id":"small"}]})")}});
  CHECK(find_model(server.address(), "", "") == "big");
  CHECK(find_model(server.address(), "", "small") == "small");
  CHECK_THROWS_WITH(find_model(server.address(), "", "smal"),
                    doctest::Contains("has no model 'smal', only 'big', 'small'"));
  PathServer without({});
  CHECK(find_model(without.address(), "", "any") == "any");
  CHECK_THROWS_WITH(find_model(without.address(), "", ""), doctest::Contains("so the model has to be named"));
  PathServer locked(
      {{"/v1/models", whole_response("401 Unauthorized", R"({"error":{"message":"no key"}})")}});
  CHECK_THROWS_WITH(find_model(locked.address(), "", ""),
                    doctest::Contains("the API key is missing or wrong"));
  for (const char* wrong :
       {"<html>", "[]", R"({"data":{}})", R"({"data":[]})", R"({"data":[{"name":"x"}]})"}) {
    PathServer strange({{"/v1/models", ok(wrong)}});
    CHECK_THROWS_WITH(find_model(strange.address(), "", ""), doctest::Contains("expected a list of models"));
  }
}

TEST_CASE("server check: versions of ours, vLLM, Ollama and llama.cpp, each where it has it") {
  const auto version_with = [](std::map<std::string, ScriptedAnswer> answers) {
    PathServer server(std::move(answers));
    return server_version(server.address(), "");
  };
  CHECK(version_with({{"/version", ok(R"({"version":"0.11.0"})")}}) == "0.11.0");
  CHECK(version_with({{"/api/version", ok(R"({"version":"0.12.3"})")}}) == "0.12.3");
  CHECK(version_with({{"/props", ok(R"({"total_slots":4,"build_info":"b6100-a1b2c3d"})")}}) ==
        "b6100-a1b2c3d");
  CHECK(version_with({{"/version", ok("1.0")}, {"/props", ok(R"({"build_info":7})")}}) == "");
  CHECK(version_with({}) == "");
}

TEST_CASE("server check: tokens a word come from usage, without what a template adds") {
  const auto usage = [](int tokens) {
    return ok(
        R"({"choices":[{"message":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":)" +
        std::to_string(tokens) + "}}");
  };
  ScriptedServer server(
      [&](const ScriptedExchange&, std::size_t number) { return usage(number == 0 ? 30 + 16 : 30 + 144); });
  const ServerAddress address{.host = "127.0.0.1", .port = server.port(), .prefix = ""};
  CHECK(measure_tokens_per_word(address, "", Endpoint::kChat, "m") == doctest::Approx(2.0));
  PathServer without({{"/v1/completions", ok("{}")}});
  CHECK(measure_tokens_per_word(without.address(), "", Endpoint::kCompletions, "m") == 0);
}

TEST_CASE("metrics text: sums over labels, exact names, and numbers of all kinds") {
  const std::string_view text =
      "# HELP a_total about\n# TYPE a_total counter\n"
      "a_total{x=\"1\"} 2\na_total{x=\"2\",y=\"}\"} 3.5e1\na_total_more 100\nb 7 1700000000\nc "
      "NaN_\nd{x=\"1\" 5\n";
  CHECK(metric_sum(text, "a_total") == 37);
  CHECK(metric_sum(text, "a_total", "x=\"2\"") == 35);
  CHECK(metric_sum(text, "b") == 7);
  CHECK_FALSE(metric_sum(text, "d").has_value());
  CHECK_FALSE(metric_sum(text, "nothing").has_value());
  CHECK_FALSE(metric_sum("", "a").has_value());
}

TEST_CASE("metrics text: samples of troupe and of servers with vLLM's names") {
  BatchCounters counters;
  const auto troupe = [&](int tokens, int batches) {
    return read_sample(
        "troupe_num_requests_running 3\ntroupe_num_requests_waiting 2\n"
        "troupe_kv_pages_capacity{tier=\"device\"} 100\n"
        "troupe_kv_pages_capacity{tier=\"host\"} 500\n"
        "troupe_kv_pages{state=\"free\",tier=\"device\"} 60\n"
        "troupe_kv_pages{state=\"cached\",tier=\"device\"} 30\n"
        "troupe_kv_pages{state=\"free\",tier=\"host\"} 400\n"
        "troupe_generation_tokens_total 500\n"
        "troupe_iteration_tokens_sum " +
            std::to_string(tokens) + "\ntroupe_iteration_tokens_count " + std::to_string(batches) + "\n",
        counters);
  };
  CHECK(troupe(100, 10).batch_tokens == 10);
  const auto sample = troupe(160, 12);
  CHECK(sample.batch_tokens == 30);
  CHECK(sample.num_running == 3);
  CHECK(sample.num_waiting == 2);
  CHECK(sample.pages_used == 40);
  CHECK(sample.pages_total == 100);
  CHECK(sample.generation_tokens == 500);
  CHECK(troupe(160, 12).batch_tokens == 0);  // no batch since

  BatchCounters none;
  const auto vllm =
      read_sample("vllm:num_requests_running{model_name=\"m\"} 4.0\nvllm:kv_cache_usage_perc{} 0.25\n", none);
  CHECK(vllm.num_running == 4);
  CHECK(vllm.pages_used / vllm.pages_total == 0.25);
}

TEST_CASE("server sampler: samples have times from the begin; a server without metrics has none") {
  PathServer server({{"/metrics", ok("troupe_num_requests_running 3\n")}});
  ServerSampler sampler(server.address(), "", 1ms);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return server.server().num_connections() >= 5; }));
  const auto samples = sampler.stop(begin);
  REQUIRE(samples.size() >= 2);
  CHECK(samples[0].num_running == 3);
  CHECK(samples[0].time >= 0ns);
  CHECK(samples[1].time > samples[0].time);

  PathServer other({{"/metrics", ok("process_cpu_seconds_total 3\n")}});
  ServerSampler no_metrics(other.address(), "", 1ms);
  CHECK(eventually([&] { return other.server().num_connections() >= 2; }));
  CHECK(no_metrics.stop(begin).empty());
}
