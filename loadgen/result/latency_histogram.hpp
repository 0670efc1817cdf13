// SPDX-License-Identifier: Apache-2.0
// Counts durations in buckets that are linear below 2048 ns and log-linear above
// (1024 buckets an octave), after the HDR histogram: memory is fixed, two can be
// merged without loss, and a percentile is wrong by at most 0.05 %.
//
// Durations without an end count in percentiles and shares, as longer than any other; they are
// in no mean. Count, minimum, maximum and mean are of the others, and exact. Durations above 2^46 ns (19.5
// hours) share the last bucket; negative ones count as zero. Not for several
// threads at once: give each its own and merge.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace troupe::loadgen {

class LatencyHistogram {
 public:
  using Duration = std::chrono::nanoseconds;

  // A point of the empirical distribution function: exactly `share` of the
  // durations are at most `value`.
  struct Step {
    Duration value{0};
    double share = 0;
  };

  LatencyHistogram();

  void record(Duration value);
  void record_endless() { ++num_endless_; }
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t num_endless() const { return num_endless_; }
  Duration minimum() const { return Duration(count_ > 0 ? minimum_ : 0); }
  Duration maximum() const { return Duration(maximum_); }
  Duration mean() const;
  Duration standard_deviation() const;  // of the population; to double's precision

  // The nearest-rank percentile: the smallest duration such that at least
  // `percent` % of all are no longer. The middle of its bucket, never beyond
  // minimum and maximum; kEndless where that one has no end; zero if nothing was recorded.
  // percent in [0, 100].
  Duration percentile(double percent) const;

  // At most max_points steps, in order, the last with share 1, or less by those without an end. The tail gets
  // its own share of them, so that p99.9 is seen as well as p50.
  std::vector<Step> distribution(std::size_t max_points) const;

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, num_endless_ = 0;
  std::int64_t minimum_ = INT64_MAX;
  std::int64_t maximum_ = 0;
  unsigned __int128 sum_ = 0;
  long double sum_of_squares_ = 0;
};

}  // namespace troupe::loadgen
