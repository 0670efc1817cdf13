// SPDX-License-Identifier: Apache-2.0
// The load that this generator can play on this machine before its own delays spoil what it
// measures: it plays ever higher loads against a server that thinks nothing, on
// another thread of this process (null_server.hpp).
//
// A load is honest if, of a hundred requests, 99 are begun within 1 ms of their
// intended time, and of a hundred chunks, 99 are stamped within 1 ms of being
// sent. The generator is one thread; a server on the same cores makes less of
// it possible than is found here, and a run's own delays are checked too.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

inline constexpr std::chrono::milliseconds kHonestDelay{1};

struct CalibrationStep {
  double requests_per_second = 0;  // done, not only asked for
  double chunks_per_second = 0;
  std::chrono::nanoseconds start_delay_p99{0};
  std::chrono::nanoseconds chunk_delay_p50{0};  // from sending to our stamp
  std::chrono::nanoseconds chunk_delay_p99{0};
  bool is_honest = false;
};

struct Calibration {
  // The highest that were honest; 0: not even the lowest load was.
  double requests_per_second = 0;
  double chunks_per_second = 0;
  // No higher load was tried, or the null server itself was at its limit.
  bool are_requests_at_least = false;
  bool are_chunks_at_least = false;
};

enum class CalibrationEffort : std::uint8_t {
  kShort,  // a few seconds: steps by a factor of 2
  kFull,   // under a minute: steps by a factor of 1.25, longer ones
};

// Blocks. `on_step` may be empty.
Calibration calibrate(CalibrationEffort effort, const std::function<void(const CalibrationStep&)>& on_step);

// Requests begun and chunks that came in the run's busiest second.
struct BusiestSecond {
  double requests = 0;
  double chunks = 0;
};
BusiestSecond busiest_second(const RunResult& result);

// "up to 8000 requests/s and at least 64000 chunks/s"
std::string calibration_text(const Calibration& calibration);

}  // namespace troupe::loadgen
