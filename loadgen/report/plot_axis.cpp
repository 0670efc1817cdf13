// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/plot_axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "loadgen/report/html_text.hpp"

namespace troupe::loadgen {
namespace {

constexpr double kWantedTicks = 5;
constexpr double kMaxDecades = 12;  // beyond, the small end is cut off

// The least of 1, 2, 5 times a power of ten that is at least `value` > 0.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

double round_down(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {5.0, 2.0}) {
    if (factor * power <= value * (1 + 1e-9)) return factor * power;
  }
  return power;
}

std::string compact(double value, const char* suffix) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g%s", value, suffix);
  return text.data();
}

std::string count_text(double value) {
  if (std::abs(value) >= 1e9) return compact(value / 1e9, "G");
  if (std::abs(value) >= 1e6) return compact(value / 1e6, "M");
  if (std::abs(value) >= 1e4) return compact(value / 1e3, "k");
  return compact(value, "");
}

// All ticks of a linear axis in the unit that suits its largest.
std::string latency_text(double seconds, double largest) {
  if (seconds == 0) return "0";
  if (largest >= 1) return compact(seconds, " s");
  if (largest >= 1e-3) return compact(seconds * 1e3, " ms");
  return compact(seconds * 1e6, " µs");
}

std::string tick_text(double value, double largest, AxisUnit unit) {
  if (std::abs(value) < 1e-12) value = 0;
  switch (unit) {
    case AxisUnit::kCount: return count_text(value);
    case AxisUnit::kTime: return compact(value, " s");
    case AxisUnit::kLatency: return latency_text(value, largest);
    case AxisUnit::kShare: return compact(value * 100, " %");
  }
  return {};
}

}  // namespace

PlotAxis::PlotAxis(double minimum, double maximum, AxisUnit unit, bool is_logarithmic)
    : is_logarithmic_(is_logarithmic && maximum > 0) {
  if (is_logarithmic_) {
    const double least = maximum * std::pow(10.0, -kMaxDecades);
    set_logarithmic_ticks(std::max(minimum, least), maximum, unit);
  } else {
    set_linear_ticks(minimum, std::max(maximum, minimum), unit);
  }
}

void PlotAxis::set_linear_ticks(double minimum, double maximum, AxisUnit unit) {
  if (maximum - minimum <= 1e-12 * std::max(std::abs(maximum), 1e-300)) {
    maximum = minimum == 0 ? 1 : minimum + std::abs(minimum) / 2;
  }
  const double step = round_up((maximum - minimum) / kWantedTicks);
  const double first = std::floor(minimum / step + 1e-9);
  const double last = std::ceil(maximum / step - 1e-9);
  lower_ = first * step;
  upper_ = last * step;
  for (double i = first; i <= last; ++i) ticks_.push_back({i * step, tick_text(i * step, upper_, unit)});
}

void PlotAxis::set_logarithmic_ticks(double minimum, double maximum, AxisUnit unit) {
  lower_ = round_down(minimum);
  upper_ = round_up(maximum);
  if (upper_ <= lower_) upper_ = lower_ * 10;
  const double decades = std::log10(upper_ / lower_);
  const std::vector<double> factors = decades > 3     ? std::vector{1.0}
                                      : decades > 1.4 ? std::vector{1.0, 3.0}
                                                      : std::vector{1.0, 2.0, 5.0};
  for (double power = std::pow(10.0, std::floor(std::log10(lower_) + 1e-9)); power <= upper_ * 1.001;
       power *= 10) {
    for (const double factor : factors) {
      const double value = power * factor;
      if (value >= lower_ * 0.999 && value <= upper_ * 1.001)
        ticks_.push_back({value, tick_text(value, value, unit)});
    }
  }
}

double PlotAxis::position(double value) const {
  if (!is_logarithmic_) return std::clamp((value - lower_) / (upper_ - lower_), 0.0, 1.0);
  if (value <= lower_) return 0;
  return std::min(std::log(value / lower_) / std::log(upper_ / lower_), 1.0);
}

}  // namespace troupe::loadgen
