// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/svg_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "loadgen/report/html_text.hpp"

namespace troupe::loadgen {
namespace {

// In units of the picture, which the page scales to its column.
constexpr double kWidth = 460, kHeight = 270;
constexpr double kLeft = 72, kRight = 20, kTop = 10, kBottom = 44;
constexpr double kInnerWidth = kWidth - kLeft - kRight;
constexpr double kInnerHeight = kHeight - kTop - kBottom;
constexpr double kWhisker = 3;
constexpr int kNumShades = 8;

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

// A coordinate system: values to places in the picture.
struct Frame {
  PlotAxis x, y;

  double left(double value) const { return kLeft + kInnerWidth * x.position(value); }
  double top(double value) const { return kTop + kInnerHeight * (1 - y.position(value)); }
  std::string place(double at_x, double at_y) const {
    return coordinate(left(at_x)) + " " + coordinate(top(at_y));
  }
};

bool is_drawable(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }
bool has_whisker(const PlotPoint& point) { return std::isfinite(point.low) && std::isfinite(point.high); }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value, bool is_logarithmic) {
    if (is_logarithmic && value <= 0) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

PlotAxis axis_over(const PlotSide& side, Range range) {
  if (side.begins_at_zero && !side.is_logarithmic) range.low = std::min(range.low, 0.0);
  if (range.high < range.low) range = {0, 1};  // only values that a logarithm has no place for
  return PlotAxis(range.low, range.high, side.unit, side.is_logarithmic);
}

Frame frame_around(const Plot& plot) {
  Range x;
  Range y;
  for (const auto& series : plot.series) {
    for (const auto& point : series.points) {
      if (!is_drawable(point)) continue;
      x.include(point.x, plot.x.is_logarithmic);
      y.include(point.y, plot.y.is_logarithmic);
      if (has_whisker(point)) {
        y.include(point.low, plot.y.is_logarithmic);
        y.include(point.high, plot.y.is_logarithmic);
      }
    }
  }
  return {.x = axis_over(plot.x, x), .y = axis_over(plot.y, y)};
}

void append_text(std::string& out, double x, double y, const char* attributes, const std::string& text) {
  out += "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" " + attributes + ">" +
         html_text(text) + "</text>";
}

void append_grid(std::string& out, const Frame& frame, const PlotSide& x, const PlotSide& y) {
  std::string lines;
  for (const auto& tick : frame.y.ticks()) {
    const double top = frame.top(tick.value);
    lines += "M" + coordinate(kLeft) + " " + coordinate(top) + "H" + coordinate(kWidth - kRight);
    append_text(out, kLeft - 6, top + 4, "class=\"ty\"", tick.text);
  }
  for (const auto& tick : frame.x.ticks()) {
    const double left = frame.left(tick.value);
    lines += "M" + coordinate(left) + " " + coordinate(kTop) + "V" + coordinate(kHeight - kBottom);
    append_text(out, left, kHeight - kBottom + 16, "class=\"tx\"", tick.text);
  }
  out += "<path class=\"grid\" d=\"" + lines + "\"/>";
  out += "<path class=\"axis\" d=\"M" + coordinate(kLeft) + " " + coordinate(kTop) + "V" +
         coordinate(kHeight - kBottom) + "H" + coordinate(kWidth - kRight) + "\"/>";
  append_text(out, kLeft + kInnerWidth / 2, kHeight - 8, "class=\"tx\"", x.label);
  append_text(out, -(kTop + kInnerHeight / 2), 11, "class=\"tx\" transform=\"rotate(-90)\"", y.label);
}

// "s3" and, when dashed, "d": what the style colours.
std::string classes_of(const PlotSeries& series) {
  return "s" + std::to_string(series.color % kNumPlotColors) + (series.is_dashed ? " d" : "");
}

void append_line(std::string& out, const Frame& frame, const PlotSeries& series) {
  std::string path;
  bool is_open = false;
  for (const auto& point : series.points) {
    if (!is_drawable(point)) {
      is_open = false;
      continue;
    }
    if (!is_open)
      path += "M" + frame.place(point.x, point.y);
    else if (series.shape == PlotSeries::Shape::kSteps)
      path += "H" + coordinate(frame.left(point.x)) + "V" + coordinate(frame.top(point.y));
    else
      path += "L" + frame.place(point.x, point.y);
    is_open = true;
  }
  if (!path.empty()) out += "<path class=\"line " + classes_of(series) + "\" d=\"" + path + "\"/>";
}

void append_whiskers(std::string& out, const Frame& frame, const PlotSeries& series) {
  std::string path;
  for (const auto& point : series.points) {
    if (!is_drawable(point) || !has_whisker(point) || point.high <= point.low) continue;
    const double left = frame.left(point.x);
    for (const double end : {point.low, point.high})
      path += "M" + coordinate(left - kWhisker) + " " + coordinate(frame.top(end)) + "h" +
              coordinate(2 * kWhisker);
    path += "M" + coordinate(left) + " " + coordinate(frame.top(point.low)) + "V" +
            coordinate(frame.top(point.high));
  }
  if (!path.empty()) out += "<path class=\"whisker " + classes_of(series) + "\" d=\"" + path + "\"/>";
}

void append_dots(std::string& out, const Frame& frame, const PlotSeries& series) {
  for (const auto& point : series.points) {
    if (!is_drawable(point) || point.note.empty()) continue;
    out += "<circle class=\"dot " + classes_of(series) + "\" r=\"3.5\" cx=\"" +
           coordinate(frame.left(point.x)) + "\" cy=\"" + coordinate(frame.top(point.y)) + "\"><title>" +
           html_text(point.note) + "</title></circle>";
  }
}

std::string legend(const Plot& plot) {
  if (plot.series.size() < 2 && (plot.series.empty() || plot.series[0].name.empty())) return {};
  std::string out = "<div class=\"legend\">";
  for (const auto& series : plot.series)
    out += "<span><svg viewBox=\"0 0 22 8\" aria-hidden=\"true\"><path class=\"line " + classes_of(series) +
           "\" d=\"M1 4H21\"/></svg>" + html_text(series.name) + "</span>";
  return out + "</div>";
}

std::string figure_head(const std::string& title, const std::string& remark) {
  std::string out = "<figure><figcaption><b>" + html_text(title) + "</b>";
  if (!remark.empty()) out += "<small>" + html_text(remark) + "</small>";
  return out + "</figcaption>";
}

std::string svg_head(const std::string& label) {
  return "<svg class=\"plot\" viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
         "\" role=\"img\" aria-label=\"" + html_text(label) + "\">";
}

std::string opacity_text(std::size_t shade) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.2f", static_cast<double>(shade + 1) / kNumShades);
  return text.data();
}

// Cells of one shade share a path, which keeps the file small.
std::string heatmap_cells(const Frame& frame, const Heatmap& heatmap) {
  const auto columns = heatmap.column_edges.size() - 1;
  const auto most = *std::max_element(heatmap.counts.begin(), heatmap.counts.end());
  std::array<std::string, kNumShades> paths;
  for (std::size_t i = 0; i < heatmap.counts.size(); ++i) {
    if (heatmap.counts[i] == 0) continue;
    // A root, so that single outliers are seen beside millions.
    const double share = std::cbrt(static_cast<double>(heatmap.counts[i]) / static_cast<double>(most));
    const auto shade = std::min<std::size_t>(kNumShades - 1, static_cast<std::size_t>(share * kNumShades));
    const double left = frame.left(heatmap.column_edges[i % columns]);
    const double right = frame.left(heatmap.column_edges[i % columns + 1]);
    const double bottom = frame.top(heatmap.row_edges[i / columns]);
    const double top = frame.top(heatmap.row_edges[i / columns + 1]);
    paths[shade] += "M" + coordinate(left) + " " + coordinate(top) + "H" + coordinate(right) + "V" +
                    coordinate(bottom) + "H" + coordinate(left) + "z";
  }
  std::string out;
  for (std::size_t shade = 0; shade < kNumShades; ++shade) {
    if (!paths[shade].empty())
      out += "<path class=\"heat\" fill-opacity=\"" + opacity_text(shade) + "\" d=\"" + paths[shade] + "\"/>";
  }
  return out;
}

}  // namespace

std::string plot_figure(const Plot& plot) {
  const bool has_points = std::any_of(plot.series.begin(), plot.series.end(), [](const auto& series) {
    return std::any_of(series.points.begin(), series.points.end(), is_drawable);
  });
  if (!has_points) return {};
  const auto frame = frame_around(plot);
  auto out = figure_head(plot.title, plot.remark) + legend(plot) + svg_head(plot.title);
  append_grid(out, frame, plot.x, plot.y);
  for (const auto& series : plot.series) append_line(out, frame, series);
  for (const auto& series : plot.series) append_whiskers(out, frame, series);
  for (const auto& series : plot.series) append_dots(out, frame, series);
  return out + "</svg></figure>\n";
}

std::string heatmap_figure(const Heatmap& heatmap) {
  const bool is_empty =
      std::all_of(heatmap.counts.begin(), heatmap.counts.end(), [](auto n) { return n == 0; });
  if (is_empty) return {};
  const Frame frame{.x = axis_over(heatmap.x, {heatmap.column_edges.front(), heatmap.column_edges.back()}),
                    .y = axis_over(heatmap.y, {heatmap.row_edges.front(), heatmap.row_edges.back()})};
  auto out = figure_head(heatmap.title, heatmap.remark) + svg_head(heatmap.title);
  out += heatmap_cells(frame, heatmap);
  append_grid(out, frame, heatmap.x, heatmap.y);
  return out + "</svg></figure>\n";
}

}  // namespace troupe::loadgen
