// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/trace_clock.hpp"

#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {

std::chrono::nanoseconds TraceClock::since_begin(std::chrono::nanoseconds time, const TraceInput& input) {
  using Seconds = std::chrono::duration<double>;
  if (!first_) {
    first_ = time;
  } else if (time < last_) {
    input.fail("expected times that never decrease, got one " + number_text(Seconds(last_ - time).count()) +
               " s before that of the request before");
  }
  last_ = time;
  return time - *first_;
}

}  // namespace troupe::loadgen
