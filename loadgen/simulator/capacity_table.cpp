// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/capacity_table.hpp"

#include <cstdio>
#include <ostream>
#include <string>
#include <utility>

namespace troupe::loadgen {
namespace {

constexpr int kNumberWidth = 10;
constexpr int kMeasureWidth = 24;

std::string milliseconds_text(std::chrono::nanoseconds time) {
  char text[32];
  const double value = static_cast<double>(time.count()) / 1e6;
  std::snprintf(text, sizeof text, value < 10 ? "%.2f ms" : value < 100 ? "%.1f ms" : "%.0f ms", value);
  return text;
}

std::string right_aligned(std::string text, int width) {
  const auto needed = static_cast<std::size_t>(width);
  return text.size() >= needed ? " " + text : std::string(needed - text.size(), ' ') + text;
}

std::string number_cell(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return right_aligned(text, kNumberWidth);
}

// Below a completed share of one nothing else counts.
std::string trial_cell(const CapacityTrial& trial, std::size_t objective) {
  if (trial.num_workers == 0) return right_aligned("-", kMeasureWidth);
  const auto& measured = trial.measured.at(objective);
  std::string text = measured ? milliseconds_text(*measured) : "not measured";
  if (trial.completed_share < 1) {
    char share[32];
    std::snprintf(share, sizeof share, " (%.1f %% refused)", 100 * (1 - trial.completed_share));
    text += share;
  }
  return right_aligned(text, kMeasureWidth);
}

}  // namespace

CapacityTable::CapacityTable(std::vector<PercentileObjective> objectives)
    : objectives_(std::move(objectives)) {}

void CapacityTable::print_head(std::ostream& out) const {
  out << right_aligned("rate /s", kNumberWidth) << right_aligned("workers", kNumberWidth);
  for (const auto& objective : objectives_)
    out << right_aligned(objective.text + " (<= " + milliseconds_text(objective.limit) + ")", kMeasureWidth)
        << right_aligned("with one worker less", kMeasureWidth);
  out << '\n';
}

void CapacityTable::print_row(std::ostream& out, double rate, const CapacityAnswer& answer) const {
  out << number_cell(rate);
  if (answer.fewest) {
    out << number_cell(answer.fewest->num_workers);
  } else {
    out << right_aligned("> " + std::to_string(answer.one_less.num_workers), kNumberWidth);
  }
  for (std::size_t i = 0; i < objectives_.size(); ++i)
    out << (answer.fewest ? trial_cell(*answer.fewest, i) : right_aligned("not met", kMeasureWidth))
        << trial_cell(answer.one_less, i);
  out << std::endl;
}

void CapacityTable::print_foot(std::ostream& out, const CapacityAnswer& last) const {
  const double rejected = (last.fewest ? *last.fewest : last.one_less).rejected_share;
  if (rejected == 0) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "%.1f %% of the requests are longer than a sequence may be here; they are left out\n",
                100 * rejected);
  out << text;
}

}  // namespace troupe::loadgen
