// SPDX-License-Identifier: Apache-2.0
// A rate that is piecewise linear in time, and the inverse of its integral.
#pragma once

#include <optional>
#include <vector>

#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

class RateProfile {
 public:
  explicit RateProfile(std::vector<RateSegment> segments);

  // When that many arrivals are expected since the begin, in seconds; nothing
  // after the last segment. Fast for counts that never decrease.
  std::optional<double> time_of(double count);

  double expected_count() const;  // of all segments
  double duration_s() const;

 private:
  std::vector<RateSegment> segments_;
  std::size_t segment_ = 0;  // where the count before was
  double segment_begin_s_ = 0;
  double segment_begin_count_ = 0;
};

}  // namespace troupe::loadgen
