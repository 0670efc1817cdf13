// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/timeline.hpp"

#include <algorithm>
#include <cmath>

#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

using Duration = std::chrono::nanoseconds;

constexpr double kMaxBins = 100;
constexpr std::size_t kHeatmapColumns = 60;
constexpr double kRowsADecade = 8;
constexpr double kGapMicroseconds = 1;    // shorter gaps lie in the lowest row
constexpr std::size_t kHeatmapRows = 56;  // seven decades: up to ten seconds

double bin_width(double duration) {
  const double least = std::max(duration, 1e-6) / kMaxBins;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

// Sums by time; what lies outside the run goes to its first or last bin. The
// last is as long as half a bin to one and a half.
class Bins {
 public:
  Bins(double duration, double width)
      : duration_(duration),
        width_(width),
        sums_(static_cast<std::size_t>(std::max(1.0, std::round(duration / width)))),
        counts_(sums_.size()) {}

  void add(double time, double amount) {
    const auto bin = bin_of(time);
    sums_[bin] += amount;
    ++counts_[bin];
  }

  // Spreads the amount evenly over a time.
  void add_over(double from, double until, double amount) {
    const auto last = bin_of(until);
    for (auto bin = bin_of(from); bin <= last; ++bin) {
      const double begin = std::max(from, static_cast<double>(bin) * width_);
      const double end = bin == last ? until : std::min(until, static_cast<double>(bin + 1) * width_);
      add_to(bin, amount * std::max(0.0, end - begin) / (until - from));
    }
  }

  std::vector<PlotPoint> rates() const {
    return points([this](std::size_t bin) { return sums_[bin] / bin_seconds(bin); });
  }

  std::vector<PlotPoint> means() const {
    auto found = points(
        [this](std::size_t bin) { return counts_[bin] > 0 ? sums_[bin] / counts_[bin] : std::nan(""); });
    std::erase_if(found, [](const PlotPoint& point) { return std::isnan(point.y); });
    return found;
  }

 private:
  std::size_t bin_of(double time) const {
    return static_cast<std::size_t>(std::clamp(time / width_, 0.0, static_cast<double>(sums_.size() - 1)));
  }
  void add_to(std::size_t bin, double amount) { sums_[bin] += amount; }
  double bin_seconds(std::size_t bin) const {
    return bin + 1 < sums_.size() ? width_ : std::max(1e-9, duration_ - static_cast<double>(bin) * width_);
  }

  template <class Value>
  std::vector<PlotPoint> points(Value value) const {
    std::vector<PlotPoint> found;
    for (std::size_t bin = 0; bin < sums_.size(); ++bin)
      found.push_back(
          {.x = static_cast<double>(bin) * width_ + bin_seconds(bin) / 2, .y = value(bin), .note = {}});
    return found;
  }

  double duration_;
  double width_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

void add_tokens(Bins& bins, const RequestRecord& record) {
  if (record.first_token <= Duration(0) || record.output_tokens == 0) return;
  if (record.gaps_us.empty() && record.last_token > record.first_token) {
    bins.add(in_seconds(record.first_token), 1);
    bins.add_over(in_seconds(record.first_token), in_seconds(record.last_token), record.output_tokens - 1);
    return;
  }
  const double tokens_a_chunk =
      static_cast<double>(record.output_tokens) / static_cast<double>(record.gaps_us.size() + 1);
  auto time = record.first_token;
  bins.add(in_seconds(time), tokens_a_chunk);
  for (const auto gap : record.gaps_us) {
    time += std::chrono::microseconds(gap);
    bins.add(in_seconds(time), tokens_a_chunk);
  }
}

// The last event may lie behind `duration` where a file was tampered with.
double length_of(const RunResult& result) {
  auto last = result.duration;
  for (const auto& record : result.records) last = std::max(last, record.intended);
  return in_seconds(last);
}

std::size_t gap_row(std::uint32_t gap_us) {
  if (gap_us <= kGapMicroseconds) return 0;
  const double row = std::log10(gap_us / kGapMicroseconds) * kRowsADecade;
  return std::min(kHeatmapRows - 1, static_cast<std::size_t>(row));
}

double row_edge(std::size_t row) {
  return kGapMicroseconds * 1e-6 * std::pow(10.0, static_cast<double>(row) / kRowsADecade);
}

// Rows without gaps below and above are cut away.
void trim_rows(Heatmap& heatmap) {
  const auto columns = heatmap.column_edges.size() - 1;
  const auto row_is_empty = [&](std::size_t row) {
    const auto begin = heatmap.counts.begin() + static_cast<std::ptrdiff_t>(row * columns);
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(columns),
                       [](auto count) { return count == 0; });
  };
  std::size_t first = 0;
  std::size_t last = kHeatmapRows;
  while (first + 1 < last && row_is_empty(first)) ++first;
  while (last > first + 1 && row_is_empty(last - 1)) --last;
  heatmap.counts = {heatmap.counts.begin() + static_cast<std::ptrdiff_t>(first * columns),
                    heatmap.counts.begin() + static_cast<std::ptrdiff_t>(last * columns)};
  for (std::size_t row = first; row <= last; ++row) heatmap.row_edges.push_back(row_edge(row));
}

}  // namespace

Timeline timeline_of(const RunResult& result) {
  const double duration = length_of(result);
  const double width = bin_width(duration);
  const Bins empty(duration, width);
  auto arrivals = empty, completions = empty, failures = empty, tokens = empty;
  for (const auto& record : result.records) {
    arrivals.add(in_seconds(record.intended), 1);
    if (record.outcome == Outcome::kCompleted)
      completions.add(in_seconds(record.finished), 1);
    else
      failures.add(in_seconds(record.finished), 1);
    add_tokens(tokens, record);
  }
  Timeline timeline{.bin_seconds = width,
                    .arrivals = arrivals.rates(),
                    .completions = completions.rates(),
                    .failures = failures.rates(),
                    .tokens = tokens.rates(),
                    .running = {},
                    .waiting = {},
                    .batch_tokens = {},
                    .pages = {}};
  auto running = empty, waiting = empty, batch_tokens = empty, pages = empty;
  for (const auto& sample : result.samples) {
    const double time = in_seconds(sample.time);
    running.add(time, sample.num_running);
    waiting.add(time, sample.num_waiting);
    batch_tokens.add(time, sample.batch_tokens);
    if (sample.pages_total > 0) pages.add(time, sample.pages_used / sample.pages_total);
  }
  timeline.running = running.means();
  timeline.waiting = waiting.means();
  timeline.batch_tokens = batch_tokens.means();
  timeline.pages = pages.means();
  return timeline;
}

Heatmap gap_heatmap(const RunResult& result) {
  const double duration = std::max(length_of(result), 1e-6);
  Heatmap heatmap{
      .title = "Inter-token latency over time",
      .remark = "stronger colour: more gaps",
      .x = {.label = "time", .unit = AxisUnit::kTime, .is_logarithmic = false, .begins_at_zero = true},
      .y = {.label = "gap", .unit = AxisUnit::kLatency, .is_logarithmic = true, .begins_at_zero = false},
      .column_edges = {},
      .row_edges = {},
      .counts = std::vector<std::uint64_t>(kHeatmapColumns * kHeatmapRows)};
  const double width = duration / kHeatmapColumns;
  for (std::size_t column = 0; column <= kHeatmapColumns; ++column)
    heatmap.column_edges.push_back(static_cast<double>(column) * width);
  for (const auto& record : result.records) {
    auto time = record.first_token;
    for (const auto gap : record.gaps_us) {
      time += std::chrono::microseconds(gap);
      const auto column = std::min(kHeatmapColumns - 1, static_cast<std::size_t>(in_seconds(time) / width));
      ++heatmap.counts[gap_row(gap) * kHeatmapColumns + column];
    }
  }
  trim_rows(heatmap);
  return heatmap;
}

}  // namespace troupe::loadgen
