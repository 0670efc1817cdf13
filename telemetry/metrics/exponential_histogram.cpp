// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/exponential_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {
namespace {

constexpr int kLargestExponent = 1000;  // far from where doubles end

void check(const HistogramLayout::Settings& settings) {
  if (settings.schema < 0 || settings.schema > 6)
    throw std::invalid_argument("histogram: a schema is 0 to 6, not " + std::to_string(settings.schema));
  if (settings.min_exponent < -kLargestExponent || settings.max_exponent > kLargestExponent ||
      settings.min_exponent >= settings.max_exponent)
    throw std::invalid_argument("histogram: no room between 2^" + std::to_string(settings.min_exponent) +
                                " and 2^" + std::to_string(settings.max_exponent));
  const double smallest = std::ldexp(1, settings.min_exponent);
  const double largest = std::ldexp(1, settings.max_exponent);
  for (const double cut : settings.cuts)
    if (!(cut >= smallest && cut <= largest))
      throw std::invalid_argument("histogram: " + std::to_string(cut) + " is not between 2^" +
                                  std::to_string(settings.min_exponent) + " and 2^" +
                                  std::to_string(settings.max_exponent));
}

}  // namespace

HistogramLayout::HistogramLayout(const Settings& settings) {
  check(settings);
  schema_ = settings.schema;
  smallest_ = std::ldexp(1, settings.min_exponent);
  largest_ = std::ldexp(1, settings.max_exponent);

  const int per_octave = 1 << schema_;
  const int first = settings.min_exponent * per_octave;
  const int last = settings.max_exponent * per_octave;
  std::vector<std::pair<double, int>> ends;  // of cells, and the bucket each is in
  for (int bucket = first; bucket <= last; ++bucket)
    ends.emplace_back(std::exp2(static_cast<double>(bucket) / per_octave), bucket);
  const auto num_buckets = static_cast<std::ptrdiff_t>(ends.size());
  for (const double cut : settings.cuts) {
    const auto bucket = std::lower_bound(ends.begin(), ends.begin() + num_buckets, std::pair(cut, first));
    ends.emplace_back(cut, bucket->second);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const auto& [upper, bucket] : ends) {
    uppers_.push_back(upper);
    buckets_.push_back(bucket);
  }
  uppers_.push_back(std::numeric_limits<double>::infinity());
  buckets_.push_back(last + 1);

  first_slot_ = std::bit_cast<std::uint64_t>(smallest_) >> kShift;
  const auto last_slot = std::bit_cast<std::uint64_t>(largest_) >> kShift;
  for (std::uint64_t slot = first_slot_; slot <= last_slot; ++slot) {
    const auto begin = std::bit_cast<double>(slot << kShift);
    const auto cell = std::lower_bound(uppers_.begin(), uppers_.end(), begin) - uppers_.begin();
    first_cells_.push_back(static_cast<std::uint16_t>(cell));
  }
}

HistogramCounts::HistogramCounts(std::shared_ptr<const HistogramLayout> layout,
                                 std::vector<std::uint64_t> cells, double sum)
    : layout_(std::move(layout)), cells_(std::move(cells)), sum_(sum) {
  for (const std::uint64_t count : cells_) total_ += count;
}

std::vector<std::uint64_t> HistogramCounts::cumulative(std::span<const double> bounds) const {
  std::vector<std::uint64_t> counts;
  counts.reserve(bounds.size());
  const auto uppers = layout_->uppers();
  std::uint64_t count = 0;
  std::size_t cell = 0;
  for (const double bound : bounds) {
    for (; cell < uppers.size() && uppers[cell] <= bound; ++cell) count += cells_[cell];
    counts.push_back(count);
  }
  return counts;
}

NativeHistogram HistogramCounts::native() const {
  NativeHistogram native{.schema = layout_->schema(),
                         .zero_threshold = layout_->smallest(),
                         .zero_count = cells_[0],
                         .spans = {},
                         .deltas = {}};
  int next_bucket = 0;  // behind the last one written
  std::int64_t last_count = 0;
  for (std::size_t cell = 1; cell < cells_.size();) {
    const int bucket = layout_->bucket_of(cell);
    std::int64_t count = 0;
    for (; cell < cells_.size() && layout_->bucket_of(cell) == bucket; ++cell)
      count += static_cast<std::int64_t>(cells_[cell]);
    if (count == 0) continue;
    if (native.spans.empty() || bucket != next_bucket)
      native.spans.push_back({.offset = bucket - next_bucket, .length = 0});
    native.spans.back().length += 1;
    native.deltas.push_back(count - last_count);
    last_count = count;
    next_bucket = bucket + 1;
  }
  return native;
}

ExponentialHistogram::ExponentialHistogram(std::shared_ptr<const HistogramLayout> layout)
    : layout_(std::move(layout)), cells_(layout_->uppers().size()) {}

HistogramCounts ExponentialHistogram::counts() const {
  std::vector<std::uint64_t> cells;
  cells.reserve(cells_.size());
  for (const auto& cell : cells_) cells.push_back(cell.load(std::memory_order_relaxed));
  return {layout_, std::move(cells), sum_.load(std::memory_order_relaxed)};
}

}  // namespace troupe
