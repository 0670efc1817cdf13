// SPDX-License-Identifier: Apache-2.0
// The queries of the Grafana dashboards in configs/grafana.
#pragma once

#include <string>
#include <vector>

namespace troupe::test {

struct PanelQuery {
  std::string dashboard, panel;
  std::string expression;  // as it stands there, variables and all
};

// Throws std::exception if a dashboard is not what Grafana would take.
std::vector<PanelQuery> dashboard_queries();

// With values for Grafana's variables, as Grafana would put them in.
std::string with_variables(std::string expression, const std::string& rate_interval);

}  // namespace troupe::test
