// SPDX-License-Identifier: Apache-2.0
// Copies to the host made behind one batch. Ahead of need: as many as half of the link's
// time in one iteration holds. A prefill fills many pages at once, and fewer copies than
// it fills pages make the next ones at need, inside a batch that waits for them; more
// than the link carries would make the next batch wait as well. On the way to the disk:
// a quarter, those ahead of need included, since nothing but a kill makes them urgent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "policy/costs/rounded_time.hpp"
#include "policy/pages/restore_choice.hpp"

namespace troupe {

// Where what a copy costs is not known.
inline constexpr std::uint32_t kCopiesAheadUnmeasured = 4;
inline constexpr std::uint32_t kCopiesBehindUnmeasured = 16;
// On the way to the disk, however short the iteration: its pages must come after it.
inline constexpr std::uint32_t kFewestCopiesBehind = 4;
// However long an iteration took: the pages must be chosen, too.
inline constexpr std::uint32_t kMostCopiesAhead = 256;

// A batch's time as far as its program took it. Copies overlap with the program (decision 0008): a
// time clearly beyond theirs is the program's, one near theirs may be all theirs.
inline std::chrono::nanoseconds program_time(std::chrono::nanoseconds iteration, std::size_t num_copies,
                                             const LoadCost& link) {
  constexpr double kHidden = 0.8;
  const double copies = static_cast<double>(num_copies) * link.per_page;
  if (copies <= kHidden * static_cast<double>(iteration.count())) return iteration;
  return std::max(std::chrono::nanoseconds(0), iteration - rounded_time(copies));
}

// iteration: the next one's program_time(), as predicted. link: of loads; a store takes
// as long; it was measured. num_queued: copies that go with the next batch anyway. At least
// `fewest`, if nothing is queued.
inline std::uint32_t copies_within(double link_share, std::chrono::nanoseconds iteration,
                                   const LoadCost& link, std::size_t num_queued, double fewest) {
  const double time = link_share * static_cast<double>(iteration.count()) - link.fixed;
  const double most = std::clamp(time / link.per_page, fewest, double{kMostCopiesAhead});
  return static_cast<std::uint32_t>(std::max(0.0, most - static_cast<double>(num_queued)));
}

inline std::uint32_t max_copies_ahead(std::chrono::nanoseconds iteration, const LoadCost& link,
                                      std::size_t num_queued) {
  if (link.per_page <= 0) return kCopiesAheadUnmeasured;
  return copies_within(0.5, iteration, link, num_queued, 1);
}

// On the way to the disk.
inline std::uint32_t max_copies_behind(std::chrono::nanoseconds iteration, const LoadCost& link,
                                       std::size_t num_queued) {
  if (link.per_page <= 0) return kCopiesBehindUnmeasured;
  return copies_within(0.25, iteration, link, num_queued, kFewestCopiesBehind);
}

}  // namespace troupe
