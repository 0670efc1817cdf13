// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

// Below 2^11 every nanosecond has its bucket; the octave [2^(11+k), 2^(12+k))
// has 2^10 of width 2^(k+1).
constexpr int kLinearBits = 11;
constexpr int kOctaveBits = kLinearBits - 1;
constexpr int kMaxBits = 46;
constexpr std::size_t kNumBuckets =
    (std::size_t{1} << kLinearBits) + (std::size_t{kMaxBits - kLinearBits} << kOctaveBits);

std::size_t bucket_of(std::uint64_t value) {
  const int bits = static_cast<int>(std::bit_width(value));
  if (bits <= kLinearBits) return value;
  if (bits > kMaxBits) return kNumBuckets - 1;
  const int shift = bits - kLinearBits;
  return (static_cast<std::size_t>(shift) << kOctaveBits) + (value >> shift);
}

int shift_of(std::size_t bucket) {
  const auto octave = static_cast<int>(bucket >> kOctaveBits);
  return octave <= 1 ? 0 : octave - 1;
}

// The smallest and the largest duration of a bucket.
std::int64_t lower_edge(std::size_t bucket) {
  const int shift = shift_of(bucket);
  const auto top = bucket - (static_cast<std::size_t>(shift) << kOctaveBits);
  return static_cast<std::int64_t>(top << shift);
}

std::int64_t upper_edge(std::size_t bucket) {
  return lower_edge(bucket) + (std::int64_t{1} << shift_of(bucket)) - 1;
}

// Shares at which a curve of n points is sampled: half of them evenly, half
// crowding towards 1 as 1 - 10^-x, down to the last duration.
std::vector<double> wanted_shares(std::size_t num_points, std::uint64_t count) {
  std::vector<double> shares;
  const auto num_even = std::max<std::size_t>(1, num_points / 2);
  const auto num_tail = num_points - num_even;
  for (std::size_t i = 1; i <= num_even; ++i)
    shares.push_back(static_cast<double>(i) / static_cast<double>(num_even));
  const double decades = std::log10(static_cast<double>(std::max<std::uint64_t>(count, 10)));
  for (std::size_t i = 1; i <= num_tail; ++i)
    shares.push_back(1 - std::pow(10.0, -decades * static_cast<double>(i) / static_cast<double>(num_tail)));
  std::sort(shares.begin(), shares.end());
  return shares;
}

}  // namespace

LatencyHistogram::LatencyHistogram() : counts_(kNumBuckets) {}

void LatencyHistogram::record(Duration duration) {
  const auto value = std::max<std::int64_t>(0, duration.count());
  ++counts_[bucket_of(static_cast<std::uint64_t>(value))];
  ++count_;
  minimum_ = std::min(minimum_, value);
  maximum_ = std::max(maximum_, value);
  sum_ += static_cast<std::uint64_t>(value);
  sum_of_squares_ += static_cast<long double>(value) * static_cast<long double>(value);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  num_endless_ += other.num_endless_;
  minimum_ = std::min(minimum_, other.minimum_);
  maximum_ = std::max(maximum_, other.maximum_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

LatencyHistogram::Duration LatencyHistogram::mean() const {
  return count_ == 0 ? Duration(0) : Duration(static_cast<std::int64_t>((sum_ + count_ / 2) / count_));
}

LatencyHistogram::Duration LatencyHistogram::standard_deviation() const {
  if (count_ == 0) return Duration(0);
  const auto n = static_cast<long double>(count_);
  const auto mean = static_cast<long double>(sum_) / n;
  const auto variance = std::max(0.0L, sum_of_squares_ / n - mean * mean);
  return Duration(static_cast<std::int64_t>(std::sqrt(variance)));
}

LatencyHistogram::Duration LatencyHistogram::percentile(double percent) const {
  const std::uint64_t num_all = count_ + num_endless_;
  if (num_all == 0) return Duration(0);
  const double wanted = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(num_all);
  // Shields the rank from rounding: 0.07 * 100 is a little more than 7.
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(wanted * (1 - 1e-12))));
  if (rank > count_) return kEndless;
  if (rank == count_) return maximum();
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (bucket + 1 < counts_.size() && seen + counts_[bucket] < rank) seen += counts_[bucket++];
  const auto middle = lower_edge(bucket) + (upper_edge(bucket) - lower_edge(bucket)) / 2;
  return Duration(std::clamp(middle, minimum_, maximum_));
}

std::vector<LatencyHistogram::Step> LatencyHistogram::distribution(std::size_t max_points) const {
  std::vector<Step> steps;
  if (count_ == 0 || max_points == 0) return steps;
  const auto wanted = wanted_shares(max_points, count_);
  auto next = wanted.begin();
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < counts_.size() && next != wanted.end(); ++bucket) {
    if (counts_[bucket] == 0) continue;
    seen += counts_[bucket];
    const double share = static_cast<double>(seen) / static_cast<double>(count_ + num_endless_);
    if (share < *next && seen < count_) continue;
    const auto edge = seen == count_ ? maximum_ : std::min(upper_edge(bucket), maximum_);
    steps.push_back({.value = Duration(edge), .share = share});
    while (next != wanted.end() && *next <= share) ++next;
  }
  return steps;
}

}  // namespace troupe::loadgen
