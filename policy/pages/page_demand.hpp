// SPDX-License-Identifier: Apache-2.0
// How many KV pages a sequence asks for, when it is admitted and as it grows,
// and how many of them it gets. The scheduler and the simulator ask here.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/forming/sequence_progress.hpp"

namespace troupe {

struct PageDemand {
  std::uint32_t required = 0;   // pages without which the call fails
  std::uint32_t wanted = 0;     // >= required: taken if there are enough
  std::uint32_t keep_free = 0;  // free or cached pages to leave to others
};

struct PageSizing {
  std::uint32_t page_size = 1;         // tokens
  std::uint32_t look_ahead_pages = 0;  // leased beyond the present need
  std::uint32_t kept_free = 0;         // for running ones, when another one joins

  std::uint32_t pages_for(std::uint32_t num_tokens) const { return (num_tokens + page_size - 1) / page_size; }
};

// All pages of a sequence that is to run beside num_running others, each of
// which must be able to take another page, or would soon preempt the newcomer;
// that much and more is left to them (Pensieve, §3.4.3). Alone it may have all.
PageDemand admission_demand(const SequenceProgress& progress, const PageSizing& sizing,
                            std::uint32_t num_running);

// Pages that a running sequence lacks for its next steps beyond those it has;
// wanted == 0: nothing. Inline: asked for every sequence in every iteration.
inline PageDemand extension_demand(const SequenceProgress& progress, const PageSizing& sizing,
                                   std::uint32_t num_held) {
  const std::uint32_t ahead = sizing.look_ahead_pages * sizing.page_size;
  const std::uint32_t most = progress.capacity_needed(1 + ahead);
  if (most <= num_held * sizing.page_size) return {};
  const std::uint32_t required = sizing.pages_for(progress.capacity_needed(1));
  return {.required = required > num_held ? required - num_held : 0,
          .wanted = sizing.pages_for(most) - num_held,
          .keep_free = 0};
}

// How many of `available` pages are given; nullopt: too few.
std::optional<std::uint32_t> pages_to_grant(const PageDemand& demand, std::uint32_t available);

}  // namespace troupe
