// SPDX-License-Identifier: Apache-2.0
// Copies to the host made ahead of need behind one batch: as many as half of the link's
// time in one iteration holds. A prefill fills many pages at once, and fewer copies than
// it fills pages make the next ones at need, inside a batch that waits for them; more
// than the link carries would make the next batch wait as well.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "policy/pages/restore_choice.hpp"

namespace troupe {

// Where what a copy costs is not known.
inline constexpr std::uint32_t kCopiesAheadUnmeasured = 4;
// However long an iteration took: the pages must be chosen, too.
inline constexpr std::uint32_t kMostCopiesAhead = 256;

// iteration: time of the batch just done, by which the next one's is predicted. link: of
// loads; a store takes as long. At least 1.
inline std::uint32_t max_copies_ahead(std::chrono::nanoseconds iteration, const LoadCost& link) {
  constexpr double kLinkShare = 0.5;
  if (link.per_page <= 0) return kCopiesAheadUnmeasured;
  const double time = kLinkShare * static_cast<double>(iteration.count()) - link.fixed;
  return static_cast<std::uint32_t>(std::clamp(time / link.per_page, 1.0, double{kMostCopiesAhead}));
}

}  // namespace troupe
