// SPDX-License-Identifier: Apache-2.0
// The figures that reports show of a run, as a table: what each is called, in
// which unit it comes and which way is better.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

struct MeasureKind {
  enum class Unit : std::uint8_t { kCount, kRate, kTime, kShare };  // times in seconds
  enum class Better : std::uint8_t { kNeither, kLower, kHigher };

  const char* name;
  Unit unit;
  Better better;
  double (*value)(const Measures&);  // not a number where nothing was measured
  bool is_of_completed = false;      // says nothing of requests that were not
};

std::span<const MeasureKind> measure_kinds();

// With its unit, for people: "12.3 ms".
std::string measure_text(MeasureKind::Unit unit, double value);

}  // namespace troupe::loadgen
