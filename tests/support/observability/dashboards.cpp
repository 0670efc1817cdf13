// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/dashboards.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace troupe::test {

std::vector<PanelQuery> dashboard_queries() {
  std::vector<PanelQuery> queries;
  for (const std::string name : {"serving", "cache", "workers"}) {
    std::ifstream file(std::filesystem::path(TROUPE_SOURCE_DIR) / "configs/grafana" / (name + ".json"));
    const auto board = nlohmann::json::parse(file);
    for (const auto& panel : board.at("panels")) {
      if (panel.at("type") == "row") continue;
      for (const auto& target : panel.at("targets"))
        queries.push_back({name, panel.at("title"), target.at("expr")});
    }
  }
  return queries;
}

std::string with_variables(std::string expression, const std::string& rate_interval) {
  const std::vector<std::pair<std::string, std::string>> values = {{"$__rate_interval", rate_interval},
                                                                   {"$model_name", ".*"},
                                                                   {"$instance", ".*"},
                                                                   {"$ttft_objective", "0.5"},
                                                                   {"$tpot_objective", "0.05"}};
  for (const auto& [name, value] : values)
    for (auto at = expression.find(name); at != std::string::npos; at = expression.find(name, at))
      expression.replace(at, name.size(), value);
  return expression;
}

}  // namespace troupe::test
