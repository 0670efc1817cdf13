// SPDX-License-Identifier: Apache-2.0
// Debian's Prometheus as a child process, unpacked by scripts/fetch-prometheus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/client/server/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::test {

// Where prometheus and promtool are; without them the test says SKIPPED.
std::optional<std::filesystem::path> find_prometheus();

class PrometheusProcess {
 public:
  // Scrapes the port every 400 ms, evaluates these rules as often, and keeps
  // all in a folder that goes with it. Throws if it does not come up.
  PrometheusProcess(const std::filesystem::path& tools, std::uint16_t scraped_port,
                    const std::vector<std::filesystem::path>& rule_files,
                    const std::vector<std::string>& more_flags = {});
  ~PrometheusProcess();
  PrometheusProcess(const PrometheusProcess&) = delete;
  PrometheusProcess& operator=(const PrometheusProcess&) = delete;

  // The "data" of an answer. Throws std::runtime_error with Prometheus' own words.
  nlohmann::json get(const std::string& target) const;
  // The result of an instant query, a list of series.
  nlohmann::json query(std::string_view expression) const;
  // Of a query with one series; nothing if there is none. May be NaN.
  std::optional<double> value(std::string_view expression) const;

  std::uint16_t port() const { return process_->address().port; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryDirectory folder_;
  std::optional<loadgen::ServerProcess> process_;
};

}  // namespace troupe::test
