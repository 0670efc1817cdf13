// SPDX-License-Identifier: Apache-2.0
// A real Prometheus scrapes the real binary while it answers.
#include "tests/support/observability/prometheus_process.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/eventually.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/dashboards.hpp"
#include "tests/support/observability/promql_names.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;

namespace {

const std::filesystem::path kConfigs = std::filesystem::path(TROUPE_SOURCE_DIR) / "configs/prometheus";
const std::vector<std::filesystem::path> kRules = {kConfigs / "rules.yml", kConfigs / "alerts.yml"};
const std::vector<std::string> kFlags = {
    "--model", TROUPE_SOURCE_DIR "/models/demo", "--log-level", "warning", "--memory", "256MiB"};

// Asks without a pause, streamed, until it goes.
class Load {
 public:
  explicit Load(std::uint16_t port) {
    for (int client = 0; client < 2; ++client)
      clients_.emplace_back([this, port, client] {
        for (int i = 0; !is_over_; ++i) {
          const std::string question = "Count from " + std::to_string(1 + (i + 3 * client) % 5) + " to 9.";
          http_post(
              port, "/v1/chat/completions",
              R"({"model":"demo","stream":true,"max_tokens":40,"messages":[{"role":"user","content":")" +
                  question + "\"}]}");
          if (i % 3 == 0) http_post(port, "/v1/chat/completions", "{");
        }
      });
  }
  ~Load() { is_over_ = true; }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::jthread> clients_;
};

// Each try asks Prometheus, which takes its time; a busy machine gets some tries more.
constexpr std::chrono::seconds kPatience{120};

// As somebody without Grafana would look at it.
void check_drawing(const PrometheusProcess& prometheus) {
  const auto page = prometheus.folder() / "page.html";
  for (const std::string name : {"serving", "cache", "workers"}) {
    const auto result = run_command({"/usr/bin/python3", TROUPE_SOURCE_DIR "/scripts/draw-dashboard",
                                     TROUPE_SOURCE_DIR "/configs/grafana/" + name + ".json", "--prometheus",
                                     "http://127.0.0.1:" + std::to_string(prometheus.port()), "--minutes",
                                     "0.2", "--scrape-interval", "1", "-o", page.string()});
    CHECK_MESSAGE(result.exit_status == 0, result.output);
    const std::string text = file_text(page);
    CHECK_MESSAGE(text.find("<polyline") != std::string::npos, name);
    CHECK_MESSAGE(text.find("no data") == std::string::npos, name);
  }
}

// All panels and rules, in a Prometheus that has scraped for a while.
void check_queries(const PrometheusProcess& prometheus, std::uint16_t port) {
  const Load load(port);
  REQUIRE(eventually(
      [&] {
        return prometheus.value("count_over_time(troupe_ready[1m])").value_or(0) >= 8 &&
               prometheus.value("increase(troupe_requests_refused_total{reason=\"invalid\"}[10s])")
                       .value_or(0) > 0;
      },
      kPatience));
  for (const auto& [board, panel, expression] : dashboard_queries()) {
    const auto result = prometheus.query(with_variables(expression, "10s"));
    CHECK_MESSAGE(!result.empty(), board << ", " << panel << ": nothing for " << expression);
  }
  REQUIRE(eventually(
      [&] {
        const auto rules = prometheus.get("/api/v1/rules");
        for (const auto& group : rules.at("groups"))
          for (const auto& rule : group.at("rules"))
            if (rule.at("health") == "unknown") return false;
        return true;
      },
      kPatience));
  auto known = exported_names(http_get(port, "/metrics").body);
  known.insert("up");
  const auto rules = prometheus.get("/api/v1/rules");
  for (const auto& group : rules.at("groups"))
    for (const auto& rule : group.at("rules"))
      if (rule.at("type") == "recording") known.insert(rule.at("name").get<std::string>());
  for (const auto& group : rules.at("groups")) {
    for (const auto& rule : group.at("rules")) {
      CHECK_MESSAGE(rule.at("health") == "ok", rule.dump());
      for (const auto& name : metric_names_in(rule.at("query").get<std::string>()))
        CHECK_MESSAGE(known.contains(name), rule.at("name") << " asks for " << name);
    }
  }
  check_drawing(prometheus);
  const auto p99 = prometheus.value(
      "histogram_quantile(0.99, sum by (le) (rate(troupe_time_to_first_token_seconds_bucket[10s]))) or "
      "histogram_quantile(0.99, sum (rate(troupe_time_to_first_token_seconds[10s])))");
  REQUIRE(p99);
  CHECK(*p99 > 0);
  CHECK(*p99 < 60);
  const auto late = prometheus.value("troupe:first_token_late:ratio_rate5m");
  REQUIRE(late);
  CHECK(*late >= 0);
  CHECK(*late <= 1);
}

}  // namespace

TEST_CASE("prometheus: promtool has nothing against our names, and only the colon against vLLM's") {
  const auto tools = find_prometheus();
  if (!tools) return;
  const ServerProcess server(kFlags);
  const TemporaryFile metrics(http_get(server.port(), "/metrics").body);
  const auto result = run_command(
      {"/bin/sh", "-c", (*tools / "promtool").string() + " check metrics <" + metrics.path().string()});
  std::istringstream complaints(result.output);
  int num_colons = 0;
  for (std::string line; std::getline(complaints, line);) {
    const bool is_colon = line.starts_with("vllm:") && line.ends_with("metric names should not contain ':'");
    const bool is_theirs =
        line == "vllm:iteration_tokens_total non-counter metrics should not have \"_total\" suffix";
    CHECK_MESSAGE((is_colon || is_theirs), line);
    num_colons += is_colon ? 1 : 0;
  }
  CHECK(num_colons > 20);
}

TEST_CASE("prometheus: promtool accepts the configuration and the rules, and alerts fire when they should") {
  const auto tools = find_prometheus();
  if (!tools) return;
  const std::string promtool = (*tools / "promtool").string();
  const auto check = [](const std::vector<std::string>& arguments) {
    const auto result = run_command(arguments);
    CHECK_MESSAGE(result.exit_status == 0, result.output);
  };
  check({promtool, "check", "config", (kConfigs / "prometheus.yml").string()});
  check({promtool, "check", "rules", kRules[0].string(), kRules[1].string()});
  check({promtool, "test", "rules", (kConfigs / "tests/alerts_test.yml").string()});
}

TEST_CASE("prometheus: it scrapes text, and every panel and rule has an answer") {
  const auto tools = find_prometheus();
  if (!tools) return;
  const ServerProcess server(kFlags);
  const PrometheusProcess prometheus(*tools, server.port(), kRules);
  check_queries(prometheus, server.port());
  CHECK(!prometheus.query("troupe_time_to_first_token_seconds_bucket").empty());
}

TEST_CASE(
    "prometheus: it keeps native histograms, whose counts are the server's, and panels and rules still "
    "answer") {
  const auto tools = find_prometheus();
  if (!tools) return;
  const ServerProcess server(kFlags);
  const PrometheusProcess prometheus(*tools, server.port(), kRules, {"--enable-feature=native-histograms"});
  check_queries(prometheus, server.port());
  // Ours are native only; vLLM's stay classic for the dashboards made for them.
  CHECK(prometheus.query("troupe_time_to_first_token_seconds_bucket").empty());
  CHECK(!prometheus.query("vllm:time_to_first_token_seconds_bucket").empty());
  for (const std::string name : {"troupe_time_to_first_token_seconds", "troupe_inter_token_latency_seconds",
                                 "troupe_request_generation_tokens", "troupe_iteration_tokens"}) {
    const double count = ServerMetrics(server.port()).series(name + "_count{");
    const double sum = ServerMetrics(server.port()).series(name + "_sum{");
    CHECK(count > 0);
    CHECK_MESSAGE(
        eventually([&] { return prometheus.value("histogram_count(" + name + ")") == count; }, kPatience),
        name);
    CHECK(prometheus.value("histogram_sum(" + name + ")").value_or(0) == doctest::Approx(sum));
  }
}
