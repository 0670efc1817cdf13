// SPDX-License-Identifier: Apache-2.0
// Draws plots as SVG inside an HTML figure. Colours and fonts come from the
// page's style (report.cpp), so that light and dark both work; nothing is
// loaded and nothing runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "loadgen/report/plot_axis.hpp"

namespace troupe::loadgen {

struct PlotPoint {
  double x = 0;
  double y = 0;  // not finite: a gap in the line
  // A whisker, where both are finite: the spread over seeds.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  std::string note;  // shown on pointing at a dot; empty: no dot
};

struct PlotSeries {
  enum class Shape : std::uint8_t { kLine, kSteps };

  std::string name;
  std::vector<PlotPoint> points;
  Shape shape = Shape::kLine;
  std::size_t color = 0;  // of the palette, which begins anew after kNumPlotColors
  bool is_dashed = false;
};
inline constexpr std::size_t kNumPlotColors = 8;

struct PlotSide {
  std::string label;
  AxisUnit unit = AxisUnit::kCount;
  bool is_logarithmic = false;
  bool begins_at_zero = true;  // not on a logarithmic side
};

struct Plot {
  std::string title;
  std::string remark;  // a sentence below the title, or empty
  PlotSide x, y;
  std::vector<PlotSeries> series;
};

// A <figure>; empty if there is no point to draw. All texts are escaped.
std::string plot_figure(const Plot& plot);

// How often values fell into cells of a grid: the stronger the colour, the more. Rows from below.
struct Heatmap {
  std::string title;
  std::string remark;
  PlotSide x, y;
  std::vector<double> column_edges;  // ascending, one more than columns
  std::vector<double> row_edges;
  std::vector<std::uint64_t> counts;  // [row * columns + column]
};

std::string heatmap_figure(const Heatmap& heatmap);

}  // namespace troupe::loadgen
