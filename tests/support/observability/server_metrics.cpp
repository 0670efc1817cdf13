// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/server_metrics.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "loadgen/client/server/metrics_text.hpp"
#include "tests/support/http/http_client.hpp"

namespace troupe::test {
namespace {

constexpr int kMaxAttempts = 5000;

std::string quoted(std::string_view label, std::string_view value) {
  return std::string(label) + "=\"" + std::string(value) + "\"";
}

}  // namespace

ServerMetrics::ServerMetrics(std::uint16_t port) : text_(http_get(port, "/metrics").body) {}

double ServerMetrics::sum(std::string_view name, std::string_view label) const {
  return loadgen::metric_sum(text_, name, label).value_or(0);
}

double ServerMetrics::series(std::string_view beginning) const {
  const auto at = text_.find("\n" + std::string(beginning));
  if (at == std::string::npos) throw std::runtime_error("no series " + std::string(beginning));
  const auto end = std::min(text_.find('\n', at + 1), text_.size());
  return std::stod(text_.substr(text_.rfind(' ', end) + 1));
}

double ServerMetrics::pages(std::string_view tier, std::string_view state) const {
  return sum("troupe_kv_pages", quoted("state", state) + "," + quoted("tier", tier));
}

double ServerMetrics::hits(std::string_view tier) const {
  return sum("troupe_prefix_cache_hits_total", quoted("tier", tier));
}

double ServerMetrics::num_open() const {
  return sum("troupe_num_requests_running") + sum("troupe_num_requests_waiting") +
         sum("troupe_num_requests_paused") + sum("troupe_http_sse_streams") + pages("device", "running");
}

ServerMetrics metrics_when_idle(std::uint16_t port) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    ServerMetrics metrics(port);
    if (metrics.num_open() == 0) return metrics;
    std::this_thread::yield();
  }
  return ServerMetrics(port);
}

}  // namespace troupe::test
