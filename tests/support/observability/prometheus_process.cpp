// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/prometheus_process.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "tests/support/http/http_client.hpp"

namespace troupe::test {
namespace {

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

void write_configuration(const std::filesystem::path& file, std::uint16_t scraped_port,
                         const std::vector<std::filesystem::path>& rule_files) {
  std::ofstream out(file);
  out << "global: {scrape_interval: 400ms, scrape_timeout: 400ms, evaluation_interval: 400ms}\nrule_files:\n";
  for (const auto& rules : rule_files) out << "  - " << rules << "\n";
  out << "scrape_configs:\n  - job_name: troupe\n    static_configs:\n      - targets: ['127.0.0.1:"
      << scraped_port << "']\n";
}

}  // namespace

std::optional<std::filesystem::path> find_prometheus() {
  const auto unpacked = std::filesystem::path(TROUPE_SOURCE_DIR) / "build/tools/prometheus/usr/bin";
  for (const auto& folder : {unpacked, std::filesystem::path("/usr/bin")})
    if (exists(folder / "prometheus") && exists(folder / "promtool")) return folder;
  MESSAGE("SKIPPED: no prometheus and promtool in " << unpacked.string()
                                                    << "; scripts/fetch-prometheus gets them");
  return std::nullopt;
}

PrometheusProcess::PrometheusProcess(const std::filesystem::path& tools, std::uint16_t scraped_port,
                                     const std::vector<std::filesystem::path>& rule_files,
                                     const std::vector<std::string>& more_flags) {
  const auto configuration = folder_.path() / "prometheus.yml";
  write_configuration(configuration, scraped_port, rule_files);
  std::vector<std::string> arguments = {
      (tools / "prometheus").string(), "--config.file=" + configuration.string(),
      "--storage.tsdb.path=" + (folder_.path() / "data").string(), "--web.listen-address=127.0.0.1:0"};
  arguments.insert(arguments.end(), more_flags.begin(), more_flags.end());
  process_.emplace(loadgen::ServerCommand{.arguments = std::move(arguments),
                                          .port_mark = "msg=\"Listening on\" address=127.0.0.1:",
                                          .environment = {},
                                          .log_file = folder_.path() / "log",
                                          .ready_path = "/-/ready"});
}

PrometheusProcess::~PrometheusProcess() { process_.reset(); }

nlohmann::json PrometheusProcess::get(const std::string& target) const {
  const auto answer = nlohmann::json::parse(http_get(process_->address().port, target).body);
  if (answer.value("status", "") != "success")
    throw std::runtime_error("Prometheus says of " + target + ": " + answer.value("error", "nothing"));
  return answer.at("data");
}

nlohmann::json PrometheusProcess::query(std::string_view expression) const {
  return get("/api/v1/query?query=" + percent_encoded(expression)).at("result");
}

std::optional<double> PrometheusProcess::value(std::string_view expression) const {
  const auto result = query(expression);
  if (result.size() != 1) return std::nullopt;
  return std::stod(result.at(0).at("value").at(1).get<std::string>());
}

}  // namespace troupe::test
