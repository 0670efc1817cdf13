// SPDX-License-Identifier: Apache-2.0
// The plots of a report.
#include <algorithm>
#include <array>
#include <cmath>

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/measure_kind.hpp"
#include "loadgen/report/report_sections.hpp"
#include "loadgen/report/svg_plot.hpp"
#include "loadgen/report/timeline.hpp"
#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::size_t kMaxCurvePoints = 400;
// Where latencies range over more than this, their axis is logarithmic.
constexpr double kWideRange = 20;

using Value = double (*)(const Measures&);

const MeasureKind& kind_named(std::string_view name) {
  const auto kinds = measure_kinds();
  return *std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name; });
}

AxisUnit axis_unit(MeasureKind::Unit unit) {
  switch (unit) {
    case MeasureKind::Unit::kTime: return AxisUnit::kLatency;
    case MeasureKind::Unit::kShare: return AxisUnit::kShare;
    case MeasureKind::Unit::kCount:
    case MeasureKind::Unit::kRate: return AxisUnit::kCount;
  }
  return AxisUnit::kCount;
}

std::string figures(const std::string& html) { return "<div class=\"grid\">" + html + "</div>"; }

// ---- curves over the load

// One line's points; x is the load, or another figure.
PlotSeries curve(const RunGroups& groups, const RunLine& line, const MeasureKind& y, const MeasureKind* x) {
  PlotSeries series;
  for (const auto& point : line.points) {
    const auto spread = spread_of(point, y.value);
    if (spread.count == 0) continue;
    const double at = x != nullptr ? spread_of(point, x->value).mean : point.load;
    auto note = line.name + ", " + load_text(groups, point.load) + ": " + y.name + " " +
                measure_text(y.unit, spread.mean);
    if (x != nullptr) note += std::string(", ") + x->name + " " + measure_text(x->unit, at);
    if (spread.count > 1)
      note += " (" + measure_text(y.unit, spread.low) + " to " + measure_text(y.unit, spread.high) + ")";
    series.points.push_back(
        {.x = at, .y = spread.mean, .low = spread.low, .high = spread.high, .note = note});
  }
  return series;
}

bool is_wide(const std::vector<PlotSeries>& series, double PlotPoint::*side) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const auto& one : series) {
    for (const auto& point : one.points) {
      if (!(point.*side > 0)) continue;
      low = std::min(low, point.*side);
      high = std::max(high, point.*side);
    }
  }
  return high > kWideRange * low;
}

std::string load_label(const RunGroups& groups) {
  if (groups.is_by_users) return "users";
  return groups.has_turns ? "offered, conversations a second" : "offered, requests a second";
}

// Nothing failed, nothing was cached: that needs no picture.
bool is_all_zero(const Plot& plot) {
  return std::all_of(plot.series.begin(), plot.series.end(), [](const auto& series) {
    return std::all_of(series.points.begin(), series.points.end(),
                       [](const auto& point) { return point.y == 0; });
  });
}

// All lines, and for each the kinds given: the second of them dashed.
std::string curves(const RunGroups& groups, const char* title, const std::vector<const char*>& names) {
  Plot plot{.title = title, .remark = {}, .x = {.label = load_label(groups)}, .y = {}, .series = {}};
  for (std::size_t line = 0; line < groups.lines.size(); ++line) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& kind = kind_named(names[i]);
      auto series = curve(groups, groups.lines[line], kind, nullptr);
      series.name = names.size() > 1 ? groups.lines[line].name + ", " + kind.name : groups.lines[line].name;
      series.color = line;
      series.is_dashed = i > 0;
      plot.y = {.label = names.size() > 1 ? "" : kind.name, .unit = axis_unit(kind.unit)};
      plot.series.push_back(std::move(series));
    }
  }
  if (plot.y.unit == AxisUnit::kLatency) plot.y.is_logarithmic = is_wide(plot.series, &PlotPoint::y);
  return is_all_zero(plot) ? std::string() : plot_figure(plot);
}

std::string curve_against(const RunGroups& groups, const char* title, const char* x_name,
                          const char* y_name) {
  const auto& x = kind_named(x_name);
  const auto& y = kind_named(y_name);
  Plot plot{.title = title,
            .remark = "further right and lower is better",
            .x = {.label = x.name, .unit = axis_unit(x.unit)},
            .y = {.label = y.name, .unit = axis_unit(y.unit)},
            .series = {}};
  for (std::size_t line = 0; line < groups.lines.size(); ++line) {
    auto series = curve(groups, groups.lines[line], y, &x);
    series.name = groups.lines[line].name;
    series.color = line;
    plot.series.push_back(std::move(series));
  }
  plot.y.is_logarithmic = is_wide(plot.series, &PlotPoint::y);
  return plot_figure(plot);
}

// ---- distributions

using Latency = LatencyHistogram PerLatency<LatencyHistogram>::*;

PerLatency<LatencyHistogram> merged_latencies(const LoadPoint& point) {
  PerLatency<LatencyHistogram> merged;
  for (const auto* run : point.runs) {
    const auto one = collect_latencies(run->result, std::nullopt);
    merged.time_to_first_token.merge(one.time_to_first_token);
    merged.time_per_output_token.merge(one.time_per_output_token);
    merged.inter_token_latency.merge(one.inter_token_latency);
    merged.end_to_end.merge(one.end_to_end);
  }
  return merged;
}

PlotSeries distribution_series(const LatencyHistogram& histogram, const std::string& name) {
  PlotSeries series{.name = name, .points = {}, .shape = PlotSeries::Shape::kSteps};
  if (histogram.count() == 0) return series;
  series.points.push_back({.x = in_seconds(histogram.minimum()), .y = 0, .note = {}});
  for (const auto& step : histogram.distribution(kMaxCurvePoints - 4))
    series.points.push_back({.x = in_seconds(step.value), .y = step.share, .note = {}});
  return series;
}

// Dots to point at; they lie on the curve, which is drawn without them.
PlotSeries percentile_dots(const LatencyHistogram& histogram, const std::string& name) {
  PlotSeries dots;
  for (const double percent : {50.0, 90.0, 99.0}) {
    const double value = in_seconds(histogram.percentile(percent));
    dots.points.push_back({.x = value, .y = std::nan(""), .note = {}});
    dots.points.push_back({.x = value,
                           .y = percent / 100,
                           .note = name + ", p" + rounded_text(percent) + ": " + duration_text(value)});
  }
  return dots;
}

std::string distribution_plot(const char* title, const std::vector<std::string>& names,
                              const std::vector<PerLatency<LatencyHistogram>>& latencies, Latency latency) {
  Plot plot{.title = title,
            .remark = {},
            .x = {.label = "", .unit = AxisUnit::kLatency, .is_logarithmic = false, .begins_at_zero = false},
            .y = {.label = "share at most", .unit = AxisUnit::kShare},
            .series = {}};
  for (std::size_t line = 0; line < names.size(); ++line) {
    const auto& histogram = latencies[line].*latency;
    if (histogram.count() == 0) continue;
    auto series = distribution_series(histogram, names[line]);
    auto dots = percentile_dots(histogram, names[line]);
    series.color = dots.color = line;
    series.points.insert(series.points.end(), dots.points.begin(), dots.points.end());
    plot.series.push_back(std::move(series));
  }
  plot.x.is_logarithmic = is_wide(plot.series, &PlotPoint::x);
  plot.x.begins_at_zero = !plot.x.is_logarithmic;
  return plot_figure(plot);
}

// ---- time lines

struct TimelineRow {
  const char* name;
  std::vector<PlotPoint> Timeline::*points;
  bool is_dashed;
};

std::string timeline_plot(const char* title, const char* y_label, AxisUnit unit,
                          const std::vector<std::string>& names, const std::vector<Timeline>& timelines,
                          const std::vector<TimelineRow>& rows) {
  Plot plot{.title = title,
            .remark = {},
            .x = {.label = "time", .unit = AxisUnit::kTime},
            .y = {.label = y_label, .unit = unit},
            .series = {}};
  for (std::size_t line = 0; line < names.size(); ++line) {
    for (const auto& row : rows) {
      PlotSeries series{.name = row.name, .points = timelines[line].*row.points};
      if (series.points.empty()) continue;
      if (names.size() > 1) series.name = rows.size() > 1 ? names[line] + ", " + row.name : names[line];
      // Alone, rows differ by colour; side by side, lines do.
      series.color = names.size() > 1 ? line : static_cast<std::size_t>(&row - rows.data());
      series.is_dashed = row.is_dashed;
      plot.series.push_back(std::move(series));
    }
  }
  return plot_figure(plot);
}

std::string timeline_plots(const std::vector<std::string>& names, const std::vector<Timeline>& timelines) {
  const bool has_failures = std::any_of(timelines.begin(), timelines.end(), [](const auto& timeline) {
    return std::any_of(timeline.failures.begin(), timeline.failures.end(),
                       [](const auto& point) { return point.y > 0; });
  });
  std::vector<TimelineRow> requests = {{"arrivals", &Timeline::arrivals, true},
                                       {"completions", &Timeline::completions, false}};
  if (has_failures && names.size() == 1) requests.push_back({"failures", &Timeline::failures, false});
  std::string out =
      timeline_plot("Arrivals and completions", "requests/s", AxisUnit::kCount, names, timelines, requests);
  if (has_failures && names.size() > 1)
    out += timeline_plot("Failures", "requests/s", AxisUnit::kCount, names, timelines,
                         {{"failures", &Timeline::failures, false}});
  out += timeline_plot("Output tokens", "tokens/s", AxisUnit::kCount, names, timelines,
                       {{"tokens", &Timeline::tokens, false}});
  out += timeline_plot("Running and waiting", "requests", AxisUnit::kCount, names, timelines,
                       {{"running", &Timeline::running, false}, {"waiting", &Timeline::waiting, true}});
  out += timeline_plot("Batch", "tokens a batch", AxisUnit::kCount, names, timelines,
                       {{"batch", &Timeline::batch_tokens, false}});
  out += timeline_plot("KV pages in use", "share", AxisUnit::kShare, names, timelines,
                       {{"pages", &Timeline::pages, false}});
  return out;
}

// ---- one load

std::vector<double> all_loads(const RunGroups& groups) {
  std::vector<double> loads;
  for (const auto& line : groups.lines) {
    for (const auto& point : line.points) loads.push_back(point.load);
  }
  std::sort(loads.begin(), loads.end());
  loads.erase(std::unique(loads.begin(), loads.end()), loads.end());
  return loads;
}

std::string load_details(const std::vector<const RunLine*>& lines,
                         const std::vector<const LoadPoint*>& points) {
  std::vector<std::string> names;
  std::vector<PerLatency<LatencyHistogram>> latencies;
  std::vector<Timeline> timelines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    names.push_back(lines[i]->name);
    latencies.push_back(merged_latencies(*points[i]));
    timelines.push_back(timeline_of(points[i]->runs.front()->result));
  }
  using L = PerLatency<LatencyHistogram>;
  auto out = "<h3>Distributions</h3>" +
             figures(distribution_plot("Time to first token", names, latencies, &L::time_to_first_token) +
                     distribution_plot("Time per output token", names, latencies, &L::time_per_output_token) +
                     distribution_plot("Inter-token latency", names, latencies, &L::inter_token_latency) +
                     distribution_plot("End to end", names, latencies, &L::end_to_end));
  std::string heatmaps;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto heatmap = gap_heatmap(points[i]->runs.front()->result);
    if (lines.size() > 1) heatmap.title += ": " + names[i];
    heatmaps += heatmap_figure(heatmap);
  }
  const bool has_seeds =
      std::any_of(points.begin(), points.end(), [](const auto* point) { return point->runs.size() > 1; });
  return out + "<h3>Over time" + (has_seeds ? " <small>of the first seed</small>" : "") + "</h3>" +
         figures(timeline_plots(names, timelines) + heatmaps);
}

}  // namespace

std::string curves_section(const RunGroups& groups) {
  if (!groups.is_sweep()) return {};
  auto plots =
      curve_against(groups, "Throughput against latency", "output tokens a second", "normalized latency p90");
  plots += curves(groups, "Time to first token", {"TTFT p50", "TTFT p99"});
  plots += curves(groups, "Time per output token", {"TPOT p50", "TPOT p99"});
  plots += curves(groups, "Goodput", {"goodput, requests a second"});
  plots += curves(groups, "Throughput", {"output tokens a second"});
  plots += curves(groups, "Not completed", {"not completed"});
  plots += curves(groups, "Prompt tokens from the cache", {"cached prompt tokens"});
  return "<h2>Over the load</h2>" + figures(plots);
}

std::string details_section(const RunGroups& groups) {
  // Runs that differ in load only because they are unrelated are still overlaid.
  if (!groups.is_sweep()) {
    std::vector<const RunLine*> lines;
    std::vector<const LoadPoint*> points;
    for (const auto& line : groups.lines) {
      lines.push_back(&line);
      points.push_back(&line.points.front());
    }
    return lines.empty() ? std::string() : "<h2>In detail</h2>" + load_details(lines, points);
  }
  const auto loads = all_loads(groups);
  std::string out = "<h2>In detail</h2>";
  for (std::size_t i = 0; i < loads.size(); ++i) {
    std::vector<const RunLine*> lines;
    std::vector<const LoadPoint*> points;
    for (const auto& line : groups.lines) {
      for (const auto& point : line.points) {
        if (point.load != loads[i]) continue;
        lines.push_back(&line);
        points.push_back(&point);
      }
    }
    out += std::string("<details") + (i == loads.size() / 2 ? " open" : "") + "><summary>" +
           html_text(load_text(groups, loads[i])) + "</summary>" + load_details(lines, points) + "</details>";
  }
  return out;
}

}  // namespace troupe::loadgen
