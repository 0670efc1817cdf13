// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/rate_profile.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::loadgen {
namespace {

double count_of(const RateSegment& segment) {
  return segment.duration_s * (segment.begin_rate + segment.end_rate) / 2;
}

// Solves begin_rate t + slope t^2 / 2 = count in the form that loses no digits
// where the slope is small, and needs no case of its own for 0.
double time_in(const RateSegment& segment, double count) {
  if (count <= 0) return 0;
  const double slope = (segment.end_rate - segment.begin_rate) / segment.duration_s;
  const double end_rate = std::sqrt(std::max(0.0, std::pow(segment.begin_rate, 2) + 2 * slope * count));
  return std::min(2 * count / (segment.begin_rate + end_rate), segment.duration_s);
}

}  // namespace

RateProfile::RateProfile(std::vector<RateSegment> segments) : segments_(std::move(segments)) {}

std::optional<double> RateProfile::time_of(double count) {
  if (count < segment_begin_count_) segment_ = 0, segment_begin_s_ = segment_begin_count_ = 0;
  for (; segment_ < segments_.size(); ++segment_) {
    const auto& segment = segments_[segment_];
    const double left = count - segment_begin_count_;
    if (left < count_of(segment)) return segment_begin_s_ + time_in(segment, left);
    segment_begin_s_ += segment.duration_s;
    segment_begin_count_ += count_of(segment);
  }
  return std::nullopt;
}

double RateProfile::expected_count() const {
  double count = 0;
  for (const auto& segment : segments_) count += count_of(segment);
  return count;
}

double RateProfile::duration_s() const {
  double duration_s = 0;
  for (const auto& segment : segments_) duration_s += segment.duration_s;
  return duration_s;
}

}  // namespace troupe::loadgen
