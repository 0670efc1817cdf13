// SPDX-License-Identifier: Apache-2.0
// Keeps the slots of running sequences side by side, as a captured decode graph
// wants them: when sequences have ended, which of the others move where.
//
// Flover's memory shuffle (Yao et al., 2023, §IV): of all windows as long as
// there are live slots, the one that holds most of them already; those outside
// move into its holes. One pass with a sliding window, O(slots), and no fewer
// moves are possible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

struct SlotMove {
  std::uint32_t from = 0;  // outside the window
  std::uint32_t to = 0;    // inside, free: moves can be done in any order, or at once
};

struct SlotCompaction {
  std::uint32_t first = 0;  // of the window
  std::uint32_t count = 0;  // live slots
  std::vector<SlotMove> moves;
};

// `is_live` by slot. Among windows that are equally good the first is taken. Any
// thread.
SlotCompaction compact_slots(std::span<const bool> is_live);

}  // namespace troupe
