// SPDX-License-Identifier: Apache-2.0
// The output of a benchmark: one line of JSON a measurement, with its goal if
// it has one. scripts/gpu-check makes a table of them (bench/kernels/cuda/report.py).
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::bench {

// A bound that the value should keep; one of the two.
struct Goal {
  std::optional<double> at_least = {}, at_most = {};
  bool is_met_by(double value) const;
};

struct Measurement {
  std::string id;     // "decode_attention_64x256": the same for ever
  std::string title;  // "paged decode attention, 64 x 256"
  double value = 0.0;
  std::string unit;  // "of read bandwidth", "GB/s", "us"
  std::optional<Goal> goal = {};
  std::vector<std::pair<std::string, double>> details = {};
};

class Recorder {
 public:
  // Each line says whether its shapes were tiny: such numbers mean nothing.
  Recorder(std::ostream& lines, bool is_tiny) : lines_(lines), is_tiny_(is_tiny) {}

  void device(const std::vector<std::pair<std::string, std::string>>& properties);
  // A value that is no number is recorded as not run.
  void add(const Measurement& measurement);
  void add_not_run(const std::string& id, const std::string& reason);

 private:
  std::ostream& lines_;
  bool is_tiny_;
};

}  // namespace troupe::bench
