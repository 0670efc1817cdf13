// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/svg_plot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "loadgen/report/html_text.hpp"

namespace troupe::loadgen {
namespace {

std::vector<std::string> tick_texts(const PlotAxis& axis) {
  std::vector<std::string> texts;
  for (const auto& tick : axis.ticks()) texts.push_back(tick.text);
  return texts;
}

TEST_CASE("html_text: what HTML takes for markup is escaped") {
  CHECK(html_text("<script>'\"&") == "&lt;script&gt;&#39;&quot;&amp;");
  CHECK(html_text(std::string_view("a\0b\x1B\t\n", 6)) ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD\t\n");
}

TEST_CASE("html_text: numbers are short and grouped") {
  CHECK(rounded_text(0) == "0");
  CHECK(rounded_text(0.012345) == "0.01235");
  CHECK(rounded_text(12.5) == "12.5");
  CHECK(rounded_text(1234567.4) == "1,234,567");
  CHECK(rounded_text(-12345) == "-12,345");
  CHECK(rounded_text(std::nan("")) == "–");
  CHECK(duration_text(0.0123) == "12.3 ms");
  CHECK(duration_text(2.5e-5) == "25 µs");
  CHECK(duration_text(75) == "75 s");
  CHECK(percent_text(0.125) == "12.5 %");
}

TEST_CASE("plot_axis: linear ticks are round and cover the range") {
  CHECK(tick_texts(PlotAxis(0, 47, AxisUnit::kCount, false)) ==
        std::vector<std::string>{"0", "10", "20", "30", "40", "50"});
  CHECK(tick_texts(PlotAxis(0, 0.043, AxisUnit::kLatency, false)) ==
        std::vector<std::string>{"0", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"});
  CHECK(tick_texts(PlotAxis(0, 1, AxisUnit::kShare, false)).back() == "100 %");
  const PlotAxis axis(0, 47, AxisUnit::kCount, false);
  CHECK(axis.position(0) == 0);
  CHECK(axis.position(25) == doctest::Approx(0.5));
  CHECK(axis.position(1e9) == 1);
}

TEST_CASE("plot_axis: logarithmic ticks are decades and parts of them") {
  CHECK(tick_texts(PlotAxis(0.001, 10, AxisUnit::kLatency, true)) ==
        std::vector<std::string>{"1 ms", "10 ms", "100 ms", "1 s", "10 s"});
  CHECK(tick_texts(PlotAxis(0.01, 0.05, AxisUnit::kLatency, true)) ==
        std::vector<std::string>{"10 ms", "20 ms", "50 ms"});
  const PlotAxis axis(0.01, 1, AxisUnit::kLatency, true);
  CHECK(axis.position(0.1) == doctest::Approx(0.5));
  CHECK(axis.position(0) == 0);
  CHECK(axis.position(-1) == 0);
}

TEST_CASE("plot_axis: any range has at least two and at most a dozen ticks") {
  for (const bool is_logarithmic : {false, true}) {
    for (const double low : {0.0, 1e-9, 0.5, 3.0, 1e6}) {
      for (const double factor : {1.0, 1.0001, 1.5, 7.0, 1e3, 1e11}) {
        const PlotAxis axis(low, low * factor, AxisUnit::kCount, is_logarithmic);
        CAPTURE(low);
        CAPTURE(factor);
        CHECK(axis.ticks().size() >= 2);
        CHECK(axis.ticks().size() <= 13);
        CHECK(axis.position(low) >= 0);
        CHECK(axis.position(low * factor) <= 1);
      }
    }
  }
}

TEST_CASE("svg_plot: a plot without points is left out") {
  Plot plot{.title = "t", .remark = {}, .x = {}, .y = {}, .series = {PlotSeries{.name = "s", .points = {}}}};
  CHECK(plot_figure(plot).empty());
  plot.series[0].points.push_back({.x = 1, .y = std::nan(""), .note = {}});
  CHECK(plot_figure(plot).empty());
  plot.series[0].points.push_back({.x = 1, .y = 2, .note = {}});
  CHECK_FALSE(plot_figure(plot).empty());
}

TEST_CASE("svg_plot: coordinates are numbers whatever the values") {
  PlotSeries series{.name = "s", .points = {}};
  for (const double value : {0.0, -1.0, 1e300, 1e-300, double{INFINITY}, double{NAN}}) {
    series.points.push_back({.x = value, .y = value, .low = value, .high = value, .note = "n"});
    series.points.push_back({.x = 1, .y = value, .note = {}});
  }
  for (const bool is_logarithmic : {false, true}) {
    const PlotSide side{.label = "l", .unit = AxisUnit::kLatency, .is_logarithmic = is_logarithmic};
    const auto figure = plot_figure({.title = "t", .remark = {}, .x = side, .y = side, .series = {series}});
    CHECK(figure.find("nan") == std::string::npos);
    CHECK(figure.find("inf") == std::string::npos);
  }
}

TEST_CASE("svg_plot: every text of a plot is escaped") {
  const std::string bad = "<b>\"&";
  const PlotSide side{.label = bad};
  const PlotSeries series{.name = bad,
                          .points = {{.x = 1, .y = 1, .note = bad}, {.x = 2, .y = 2, .note = {}}}};
  const auto figure =
      plot_figure({.title = bad, .remark = bad, .x = side, .y = side, .series = {series, series}});
  CHECK(figure.find("<b>\"") == std::string::npos);
  CHECK(figure.find("<title>&lt;b&gt;&quot;&amp;</title>") != std::string::npos);
}

TEST_CASE("svg_plot: a gap in the values is a gap in the line") {
  const PlotSeries series{.name = "",
                          .points = {{.x = 0, .y = 1, .note = {}},
                                     {.x = 1, .y = NAN, .note = {}},
                                     {.x = 2, .y = 1, .note = {}},
                                     {.x = 3, .y = 2, .note = {}}}};
  const auto figure = plot_figure({.title = "t", .remark = {}, .x = {}, .y = {}, .series = {series}});
  const auto path = figure.substr(figure.find("class=\"line"));
  const auto drawn = path.substr(0, path.find("/>"));
  CHECK(std::count(drawn.begin(), drawn.end(), 'M') == 2);
  CHECK(std::count(drawn.begin(), drawn.end(), 'L') == 1);
}

}  // namespace
}  // namespace troupe::loadgen
