// SPDX-License-Identifier: Apache-2.0
// One axis of a plot: where a value lies on it, and where its ticks are.
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

enum class AxisUnit { kCount, kTime, kLatency, kShare };  // times in seconds

class PlotAxis {
 public:
  struct Tick {
    double value;
    std::string text;
  };

  // Covers the range and a little more, up to round numbers. A logarithmic axis
  // begins above zero: smaller values lie at its lower end.
  PlotAxis(double minimum, double maximum, AxisUnit unit, bool is_logarithmic);

  double position(double value) const;  // 0 at the lower end, 1 at the upper; clamped
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void set_linear_ticks(double minimum, double maximum, AxisUnit unit);
  void set_logarithmic_ticks(double minimum, double maximum, AxisUnit unit);

  bool is_logarithmic_;
  double lower_ = 0;
  double upper_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace troupe::loadgen
