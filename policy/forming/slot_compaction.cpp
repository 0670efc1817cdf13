// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/slot_compaction.hpp"

#include <algorithm>

namespace troupe {
namespace {

// The first of the windows of `length` slots with most live ones.
std::size_t best_window(std::span<const bool> is_live, std::size_t length) {
  auto num_live = std::count(is_live.begin(), is_live.begin() + static_cast<std::ptrdiff_t>(length), true);
  auto most = num_live;
  std::size_t best = 0;
  for (std::size_t first = 1; first + length <= is_live.size(); ++first) {
    num_live += (is_live[first + length - 1] ? 1 : 0) - (is_live[first - 1] ? 1 : 0);
    if (num_live > most) {
      most = num_live;
      best = first;
    }
  }
  return best;
}

}  // namespace

SlotCompaction compact_slots(std::span<const bool> is_live) {
  const auto count = static_cast<std::size_t>(std::count(is_live.begin(), is_live.end(), true));
  const std::size_t first = best_window(is_live, count);
  SlotCompaction compaction{
      .first = static_cast<std::uint32_t>(first), .count = static_cast<std::uint32_t>(count), .moves = {}};
  std::size_t hole = first;
  for (std::size_t slot = 0; slot < is_live.size(); ++slot) {
    const bool is_inside = slot >= first && slot < first + count;
    if (!is_live[slot] || is_inside) continue;
    while (is_live[hole]) ++hole;
    compaction.moves.push_back(
        {.from = static_cast<std::uint32_t>(slot), .to = static_cast<std::uint32_t>(hole++)});
  }
  return compaction;
}

}  // namespace troupe
