// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/cell_choice.hpp"

namespace troupe {
namespace {

// The best of those for which counts() holds: highest priority, then the first.
template <class Condition>
std::optional<std::size_t> highest(std::span<const CellLoad> loads, const Condition& counts) {
  std::optional<std::size_t> best;
  for (std::size_t cell = 0; cell < loads.size(); ++cell) {
    if (loads[cell].num_ready == 0 || !counts(cell)) continue;
    if (!best || loads[cell].priority > loads[*best].priority) best = cell;
  }
  return best;
}

}  // namespace

std::optional<std::size_t> CellTurns::next(std::span<const CellLoad> loads) const {
  if (const auto starving =
          highest(loads, [&](std::size_t cell) { return num_passed_over_[cell] >= kMostPassedOver; }))
    return starving;
  if (last_ && num_in_row_ < max_tasks_ && loads[*last_].num_ready > 0 &&
      loads[*last_].num_ready >= loads[*last_].min_batch)
    return last_;
  if (const auto full =
          highest(loads, [&](std::size_t cell) { return loads[cell].num_ready >= loads[cell].max_batch; }))
    return full;
  if (const auto idle = highest(loads, [&](std::size_t cell) { return loads[cell].num_in_flight == 0; }))
    return idle;
  return highest(loads, [](std::size_t) { return true; });
}

void CellTurns::submitted(std::size_t cell, std::span<const CellLoad> loads) {
  for (std::size_t other = 0; other < loads.size(); ++other)
    if (other != cell && loads[other].num_ready > 0) num_passed_over_[other] += 1;
  num_passed_over_[cell] = 0;
  const bool goes_on = last_ == cell && num_in_row_ < max_tasks_;
  num_in_row_ = goes_on ? num_in_row_ + 1 : 1;
  last_ = cell;
}

}  // namespace troupe
