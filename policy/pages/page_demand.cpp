// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_demand.hpp"

#include <algorithm>

namespace troupe {

PageDemand admission_demand(const SequenceProgress& progress, const PageSizing& sizing,
                            std::uint32_t num_running) {
  const std::uint32_t ahead = sizing.look_ahead_pages * sizing.page_size;
  return {.required = sizing.pages_for(progress.capacity_needed(1)),
          .wanted = sizing.pages_for(progress.capacity_needed(1 + ahead)),
          .keep_free = num_running == 0 ? 0 : std::max(num_running, sizing.kept_free)};
}

std::optional<std::uint32_t> pages_to_grant(const PageDemand& demand, std::uint32_t available) {
  if (available < demand.required + demand.keep_free) return std::nullopt;
  return std::clamp(available - demand.keep_free, demand.required, std::max(demand.required, demand.wanted));
}

}  // namespace troupe
