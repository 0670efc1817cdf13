// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/preemption.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace troupe {
namespace {

// The flow that holds most pages, if it has more than its share; of equal ones the
// first by number, which is the one that is known longest.
std::optional<std::uint64_t> largest_flow(std::span<const PreemptionCandidate> running) {
  std::map<std::uint64_t, std::uint64_t> held;
  std::uint64_t num_held = 0;
  for (const auto& candidate : running) {
    held[candidate.flow] += candidate.num_pages;
    num_held += candidate.num_pages;
  }
  if (held.size() < 2) return std::nullopt;
  const auto largest = std::max_element(held.begin(), held.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest->second * held.size() <= num_held) return std::nullopt;
  return largest->first;
}

// The last to arrive of those that may be preempted.
template <class MayBe>
std::optional<std::size_t> last_of(std::span<const PreemptionCandidate> running, MayBe may_be) {
  std::optional<std::size_t> victim;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!running[i].has_progressed || !may_be(running[i])) continue;
    if (!victim || running[i].arrival > running[*victim].arrival) victim = i;
  }
  return victim;
}

}  // namespace

std::optional<std::size_t> choose_victim(std::span<const PreemptionCandidate> running,
                                         std::uint64_t needy_arrival) {
  if (const auto flow = largest_flow(running)) {
    const bool is_own = std::any_of(running.begin(), running.end(), [&](const auto& candidate) {
      return candidate.arrival == needy_arrival && candidate.flow == *flow;
    });
    const auto victim = last_of(running, [&](const PreemptionCandidate& candidate) {
      return candidate.flow == *flow && (!is_own || candidate.arrival >= needy_arrival);
    });
    if (victim) return victim;
  }
  std::uint64_t first_arrival = std::numeric_limits<std::uint64_t>::max();
  for (const auto& candidate : running) first_arrival = std::min(first_arrival, candidate.arrival);
  return last_of(running, [&](const PreemptionCandidate& candidate) {
    return candidate.arrival >= needy_arrival && candidate.arrival != first_arrival;
  });
}

}  // namespace troupe
