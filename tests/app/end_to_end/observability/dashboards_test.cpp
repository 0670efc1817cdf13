// SPDX-License-Identifier: Apache-2.0
// What configs/ asks a server for, and what the server has.
#include "tests/support/observability/dashboards.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/promql_names.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::vector<std::string> kNoNetwork = {
    "--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "noop", "--log-level", "warning"};

json dashboard(const std::string& name) {
  std::ifstream file(std::filesystem::path(TROUPE_SOURCE_DIR) / "configs/grafana" / (name + ".json"));
  return json::parse(file);
}

std::set<std::string> unknown_in(const std::string& expression, const std::set<std::string>& known) {
  std::set<std::string> unknown;
  for (const auto& name : metric_names_in(expression))
    if (!known.contains(name)) unknown.insert(name);
  return unknown;
}

}  // namespace

TEST_CASE("metric names: found behind functions, aggregations, selectors and ranges") {
  using Names = std::set<std::string>;
  CHECK(metric_names_in("up") == Names{"up"});
  CHECK(metric_names_in(R"(sum by (le, "x") (rate(a_bucket{le="0.5", b=~"$c}"}[5m])) / a_count)") ==
        Names{"a_bucket", "a_count"});
  CHECK(metric_names_in("histogram_quantile(0.99, sum(rate(a:b{c=\"d\"}[$__rate_interval]))) or 2e3 * e") ==
        Names{"a:b", "e"});
  CHECK(metric_names_in("a and on (instance, job) group_left (x) b unless c offset 5m > bool 1") ==
        Names{"a", "b", "c"});
  CHECK(metric_names_in("min(label_replace((a), \"x\", \"not_me\", \"\", \"\"))") == Names{"a"});
  CHECK(metric_names_in("sum without (a) (b) + 14.4 * 0.01") == Names{"b"});
}

TEST_CASE("dashboards: every metric of every query is one that the server exports") {
  const ServerProcess server(kNoNetwork);
  const auto known = exported_names(http_get(server.port(), "/metrics").body);
  REQUIRE(known.size() > 100);
  const auto queries = dashboard_queries();
  REQUIRE(queries.size() > 80);
  for (const auto& [board, panel, expression] : queries) {
    CHECK_MESSAGE(!metric_names_in(expression).empty(),
                  board << ", " << panel << ": no metric in " << expression);
    for (const auto& name : unknown_in(expression, known))
      FAIL_CHECK(board << ", " << panel << ": no metric " << name);
  }
  // This test can fail.
  const auto unknown = unknown_in("rate(troupe_generated_tokens_total[5m])", known);
  CHECK(unknown == std::set<std::string>{"troupe_generated_tokens_total"});
}

TEST_CASE("dashboards: what vLLM's own dashboard asks for is there, under its names and labels") {
  const ServerProcess server(kNoNetwork);
  const auto text = http_get(server.port(), "/metrics").body;
  // Of examples/online_serving/prometheus_grafana/grafana.json in vLLM 0.8 to 0.11.
  for (const std::string name : {"e2e_request_latency_seconds_bucket",
                                 "e2e_request_latency_seconds_sum",
                                 "e2e_request_latency_seconds_count",
                                 "prompt_tokens_total",
                                 "generation_tokens_total",
                                 "time_per_output_token_seconds_bucket",
                                 "time_per_output_token_seconds_sum",
                                 "time_per_output_token_seconds_count",
                                 "inter_token_latency_seconds_bucket",
                                 "num_requests_running",
                                 "num_requests_waiting",
                                 "time_to_first_token_seconds_bucket",
                                 "time_to_first_token_seconds_sum",
                                 "time_to_first_token_seconds_count",
                                 "gpu_cache_usage_perc",
                                 "kv_cache_usage_perc",
                                 "request_prompt_tokens_bucket",
                                 "request_generation_tokens_bucket",
                                 "request_success_total",
                                 "request_queue_time_seconds_sum",
                                 "request_prefill_time_seconds_sum",
                                 "request_decode_time_seconds_sum",
                                 "request_max_num_generation_tokens_sum"}) {
    const auto at = text.find("\nvllm:" + name + "{engine=\"0\",");
    REQUIRE_MESSAGE(at != std::string::npos, name);
    const auto line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    CHECK_MESSAGE(line.find("model_name=\"demo\"") != std::string::npos, line);
  }
}

TEST_CASE("dashboards: panels have titles, descriptions, units and their own place") {
  std::set<std::string> uids;
  for (const std::string name : {"serving", "cache", "workers"}) {
    const auto board = dashboard(name);
    CHECK(uids.insert(board.at("uid").get<std::string>()).second);
    CHECK(board.at("schemaVersion") >= 36);  // Grafana 9
    std::set<std::string> variables;
    for (const auto& variable : board.at("templating").at("list"))
      variables.insert(variable.at("name").get<std::string>());
    CHECK(variables.contains("datasource"));
    CHECK(variables.contains("model_name"));
    std::set<int> ids;
    std::set<std::pair<int, int>> taken;
    for (const auto& panel : board.at("panels")) {
      const std::string title = panel.at("title");
      CHECK_MESSAGE(ids.insert(panel.at("id").get<int>()).second, title);
      const auto& place = panel.at("gridPos");
      CHECK_MESSAGE(place.at("x").get<int>() + place.at("w").get<int>() <= 24, title);
      for (int x = place.at("x"); x < place.at("x").get<int>() + place.at("w").get<int>(); ++x)
        for (int y = place.at("y"); y < place.at("y").get<int>() + place.at("h").get<int>(); ++y)
          CHECK_MESSAGE(taken.emplace(x, y).second, name << ": " << title << " covers another panel");
      if (panel.at("type") == "row") continue;
      CHECK_MESSAGE(!panel.at("description").get<std::string>().empty(), title);
      CHECK_MESSAGE(panel.at("fieldConfig").at("defaults").contains("unit"), title);
      CHECK_MESSAGE(panel.at("datasource").at("uid") == "${datasource}", title);
    }
  }
}
