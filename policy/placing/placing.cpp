// SPDX-License-Identifier: Apache-2.0
#include "policy/placing/placing.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Of running sequences, for a worker to be gone to for what it has.
std::uint32_t most_running(std::span<const PlacingCandidate> candidates) {
  if (candidates.empty()) return 0;
  const auto least = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.num_running < b.num_running;
  });
  return 2 * least->num_running + 1;
}

}  // namespace

std::optional<std::size_t> choose_worker(std::span<const PlacingCandidate> candidates) {
  const std::uint32_t most = most_running(candidates);
  const auto is_better = [](const PlacingCandidate& a, const PlacingCandidate& b) {
    if (a.known_tokens != b.known_tokens) return a.known_tokens > b.known_tokens;
    if (a.num_running != b.num_running) return a.num_running < b.num_running;
    return a.num_free_pages > b.num_free_pages;
  };
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].num_running > most) continue;
    if (!chosen || is_better(candidates[i], candidates[*chosen])) chosen = i;
  }
  return chosen;
}

}  // namespace troupe
