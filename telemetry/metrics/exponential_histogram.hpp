// SPDX-License-Identifier: Apache-2.0
// A histogram that many threads write to without waiting for each other. One
// observation is one count in one cell, and the cells give three views, all of
// them exact: Prometheus' sparse exponential buckets ("native histograms"), our
// own classic buckets, and those that dashboards of other servers expect.
//
//   exponential      |     |       |         |            |      2^(i / 2^schema)
//   classic                    |                 |               0.05, 0.1 …
//   cells            |     |   |   |         |   |        |      cut at both
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe {

// Where the cells of a histogram end. Immutable, shared by histograms alike.
class HistogramLayout {
 public:
  struct Settings {
    int schema = 4;  // 2^schema exponential buckets a factor of two; 0 to 6
    // Observations up to 2^min_exponent count as zero; those above
    // 2^max_exponent share one bucket.
    int min_exponent = 0;
    int max_exponent = 1;
    std::vector<double> cuts = {};  // bounds of classic buckets, in any order
  };

  // Throws std::invalid_argument if the settings make no sense, or a cut lies
  // outside of the two powers.
  explicit HistogramLayout(const Settings& settings);

  // Cell of any number but NaN.
  std::size_t cell_of(double value) const noexcept {
    if (!(value > smallest_)) return 0;
    if (value > largest_) return uppers_.size() - 1;
    const auto slot = (std::bit_cast<std::uint64_t>(value) >> kShift) - first_slot_;
    std::size_t cell = first_cells_[slot];
    while (value > uppers_[cell]) ++cell;
    return cell;
  }

  int schema() const { return schema_; }
  double smallest() const { return smallest_; }
  // One a cell, ascending; the first holds what counts as zero, the last has no end.
  std::span<const double> uppers() const { return uppers_; }
  // The exponential bucket a cell belongs to; of no meaning for the first.
  int bucket_of(std::size_t cell) const { return buckets_[cell]; }

 private:
  // Slots are what the exponent and the first six bits of the mantissa tell
  // apart: at most a bucket and a few cuts begin in one.
  static constexpr int kMantissaBits = 6;
  static constexpr int kShift = 52 - kMantissaBits;

  int schema_;
  double smallest_, largest_;
  std::uint64_t first_slot_;
  std::vector<std::uint16_t> first_cells_;  // of each slot
  std::vector<double> uppers_;
  std::vector<int> buckets_;
};

// As Prometheus' protocol has it: spans of consecutive buckets, and counts, each
// as the difference to the one before.
struct NativeHistogram {
  struct Span {
    int offset = 0;  // buckets between the last span and this one; the first: its index
    std::uint32_t length = 0;
    bool operator==(const Span&) const = default;
  };
  int schema = 0;
  double zero_threshold = 0;
  std::uint64_t zero_count = 0;
  std::vector<Span> spans;
  std::vector<std::int64_t> deltas;
};

// The counts of a histogram at one time. A value.
class HistogramCounts {
 public:
  HistogramCounts(std::shared_ptr<const HistogramLayout> layout, std::vector<std::uint64_t> cells,
                  double sum);

  std::uint64_t total() const { return total_; }
  double sum() const { return sum_; }
  // Observations up to each of these bounds: ascending, each one of the cuts.
  std::vector<std::uint64_t> cumulative(std::span<const double> bounds) const;
  NativeHistogram native() const;

 private:
  std::shared_ptr<const HistogramLayout> layout_;
  std::vector<std::uint64_t> cells_;
  double sum_;
  std::uint64_t total_ = 0;
};

// All methods may be called from any thread. A read while others write gives
// some recent state in which the total is the sum of all buckets.
class ExponentialHistogram {
 public:
  explicit ExponentialHistogram(std::shared_ptr<const HistogramLayout> layout);

  // NaN is no observation; negative ones count as zero.
  void observe(double value) noexcept {
    if (value != value) return;
    if (value < 0) value = 0;
    cells_[layout_->cell_of(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  HistogramCounts counts() const;

 private:
  std::shared_ptr<const HistogramLayout> layout_;
  std::vector<std::atomic<std::uint64_t>> cells_;
  std::atomic<double> sum_ = 0;
};

}  // namespace troupe
