// SPDX-License-Identifier: Apache-2.0
#include "policy/preemption.hpp"

#include <limits>

namespace troupe {

std::optional<std::size_t> choose_victim(std::span<const PreemptionCandidate> running,
                                         std::uint64_t needy_arrival) {
  std::optional<std::size_t> victim;
  std::uint64_t first_arrival = std::numeric_limits<std::uint64_t>::max();
  for (const auto& candidate : running)
    if (candidate.arrival < first_arrival) first_arrival = candidate.arrival;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const PreemptionCandidate& candidate = running[i];
    if (!candidate.has_progressed || candidate.arrival < needy_arrival) continue;
    if (candidate.arrival == first_arrival) continue;
    if (!victim || candidate.arrival > running[*victim].arrival) victim = i;
  }
  return victim;
}

}  // namespace troupe
