// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/product_tuning.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cuda {

std::optional<ProductChoice> choose_product(std::span<const ProductCandidate> candidates,
                                            const ProductClock& clock) {
  std::optional<ProductChoice> best;
  for (const ProductCandidate& candidate : candidates) {
    const auto microseconds = clock(candidate.run);
    if (!microseconds || (best && *microseconds >= best->microseconds)) continue;
    best = candidate.choice;
    best->microseconds = *microseconds;
  }
  return best;
}

ProductTuningReport tune_products(std::vector<ProductTask> tasks, const ProductTuning& tuning,
                                  ProductChoices& choices) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const ProductTask& a, const ProductTask& b) { return a.importance > b.importance; });
  const auto deadline = tuning.now() + tuning.budget;
  ProductTuningReport report;
  for (const ProductTask& task : tasks) {
    const ProductShape shape = bin_of(task.shape);
    if (choices.contains(shape)) {
      ++report.num_known;
      continue;
    }
    std::optional<ProductChoice> choice;
    if (tuning.now() < deadline) choice = choose_product(tuning.candidates(shape), tuning.clock);
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
