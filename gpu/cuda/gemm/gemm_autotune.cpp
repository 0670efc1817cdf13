// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_autotune.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cuda {

std::optional<GemmChoice> choose_gemm(std::span<const GemmCandidate> candidates, const GemmClock& clock) {
  std::optional<GemmChoice> best;
  for (const GemmCandidate& candidate : candidates) {
    const auto microseconds = clock(candidate.run);
    if (!microseconds || (best && *microseconds >= best->microseconds)) continue;
    best = candidate.choice;
    best->microseconds = *microseconds;
  }
  return best;
}

GemmAutotuneReport autotune_gemms(std::vector<GemmTask> tasks, const GemmAutotune& tuning,
                                  GemmChoices& choices) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const GemmTask& a, const GemmTask& b) { return a.importance > b.importance; });
  const auto deadline = tuning.now() + tuning.budget;
  GemmAutotuneReport report;
  for (const GemmTask& task : tasks) {
    const GemmShape shape = bin_of(task.shape);
    if (choices.contains(shape)) {
      ++report.num_known;
      continue;
    }
    std::optional<GemmChoice> choice;
    if (tuning.now() < deadline) choice = choose_gemm(tuning.candidates(shape), tuning.clock);
    if (choice) {
      choices[shape] = *choice;
      ++report.num_measured;
    } else {
      ++report.num_left;
    }
  }
  return report;
}

}  // namespace troupe::cuda
