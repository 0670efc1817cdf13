// SPDX-License-Identifier: Apache-2.0
// What a running server said at /metrics, at one moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::test {

class ServerMetrics {
 public:
  // Asks the server; throws std::runtime_error if it can't be reached.
  explicit ServerMetrics(std::uint16_t port);

  // Over all series whose labels contain `label`, as in reason="timeout"; 0 if there is none.
  double sum(std::string_view name, std::string_view label = {}) const;
  // Of the first series that begins so, as in troupe_requests_total{finished_reason="stop";
  // throws std::runtime_error if there is none.
  double series(std::string_view beginning) const;
  // KV pages of a tier, "device", "host" or "disk", in a state.
  double pages(std::string_view tier, std::string_view state) const;
  // Tokens found in a tier so far.
  double hits(std::string_view tier) const;
  // Requests that run, wait or stand still, open streams, pages held.
  double num_open() const;

 private:
  std::string text_;
};

// Once nothing is open any more, or after many attempts.
ServerMetrics metrics_when_idle(std::uint16_t port);

}  // namespace troupe::test
