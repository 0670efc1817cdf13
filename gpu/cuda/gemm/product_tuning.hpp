// SPDX-License-Identifier: Apache-2.0
// The GEMM autotuner: measures how a product is computed fastest, at start and within a
// budget: the most important shapes first, the rest at the next start, as choices are kept
// (product_choices.hpp). Knows neither CUDA nor cuBLASLt: whatever can be run
// and timed is a candidate.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/gemm/product_shape.hpp"

namespace troupe::cuda {

// Starts the i-th run; i counts up, so that each run can read another weight
// and none of it lies in the L2 cache.
using ProductRun = std::function<void(std::size_t i)>;

// Microseconds of one run on the device (ProductTimer). nullopt: it cannot run.
using ProductClock = std::function<std::optional<double>(const ProductRun& run)>;

struct ProductCandidate {
  ProductChoice choice;
  ProductRun run;
};

// The fastest, with its time; among equals the first. nullopt: none can run.
std::optional<ProductChoice> choose_product(std::span<const ProductCandidate> candidates,
                                            const ProductClock& clock);

struct ProductTask {
  ProductShape shape;       // measured with the tokens of its bin
  double importance = 0.0;  // for instance: share of time that it is expected to take
};

struct ProductTuning {
  // Candidates that could compute the shape; may be empty.
  std::function<std::vector<ProductCandidate>(const ProductShape&)> candidates;
  ProductClock clock;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::chrono::steady_clock::duration budget = std::chrono::seconds(1);
};

struct ProductTuningReport {
  std::size_t num_measured = 0;
  std::size_t num_known = 0;  // were in `choices` before
  std::size_t num_left = 0;   // no time, or nothing can compute them
};

// Adds what it measures to `choices`. A shape whose measurement has begun is
// finished, so the budget may be passed by one shape.
ProductTuningReport tune_products(std::vector<ProductTask> tasks, const ProductTuning& tuning,
                                  ProductChoices& choices);

}  // namespace troupe::cuda
