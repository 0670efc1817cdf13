// SPDX-License-Identifier: Apache-2.0
// The times of a trace, counted from its first request.
#pragma once

#include <chrono>
#include <optional>

#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

class TraceClock {
 public:
  // Takes the time of the next request on whatever clock the trace has. Fails
  // at the input's line if it lies before the one of the request before.
  std::chrono::nanoseconds since_begin(std::chrono::nanoseconds time, const TraceInput& input);

 private:
  std::optional<std::chrono::nanoseconds> first_;
  std::chrono::nanoseconds last_{0};
};

}  // namespace troupe::loadgen
