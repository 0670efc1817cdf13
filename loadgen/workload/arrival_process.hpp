// SPDX-License-Identifier: Apache-2.0
// When the conversations of an open loop begin. A closed loop has no arrival
// process: there a conversation begins when its user has finished the one before.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "loadgen/workload/random_source.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

class ArrivalProcess {
 public:
  virtual ~ArrivalProcess() = default;
  // Since the begin of the run, never decreasing; nothing: there are no more.
  virtual std::optional<std::chrono::nanoseconds> next() = 0;
};

// For every kind but kClosed and a kReplay without times of its own; the
// settings have passed check().
std::unique_ptr<ArrivalProcess> make_arrival_process(const ArrivalSettings& settings, RandomSource random);

// Throws std::runtime_error that begins with the key: "arrivals.rate: ...".
void check(const ArrivalSettings& settings);

}  // namespace troupe::loadgen
