// SPDX-License-Identifier: Apache-2.0
// The GEMM autotuner: measures how a product is computed fastest, at start and within a
// budget: the most important shapes first, the rest at the next start, as choices are kept
// (gemm_choices.hpp). Knows neither CUDA nor cuBLASLt: whatever can be run
// and timed is a candidate.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/gemm/gemm_shape.hpp"

namespace troupe::cuda {

// Starts the i-th run; i counts up, so that each run can read another weight
// and none of it lies in the L2 cache.
using GemmRun = std::function<void(std::size_t i)>;

// Microseconds of one run on the device (GemmTimer). nullopt: it cannot run.
using GemmClock = std::function<std::optional<double>(const GemmRun& run)>;

struct GemmCandidate {
  GemmChoice choice;
  GemmRun run;
};

// The fastest, with its time; among equals the first. nullopt: none can run.
std::optional<GemmChoice> choose_gemm(std::span<const GemmCandidate> candidates, const GemmClock& clock);

struct GemmTask {
  GemmShape shape;          // measured with the tokens of its bin
  double importance = 0.0;  // for instance: share of time that it is expected to take
};

struct GemmAutotune {
  // Candidates that could compute the shape; may be empty.
  std::function<std::vector<GemmCandidate>(const GemmShape&)> candidates;
  GemmClock clock;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::chrono::steady_clock::duration budget = std::chrono::seconds(1);
};

struct GemmAutotuneReport {
  std::size_t num_measured = 0;
  std::size_t num_known = 0;  // were in `choices` before
  std::size_t num_left = 0;   // no time, or nothing can compute them
};

// Adds what it measures to `choices`. A shape whose measurement has begun is
// finished, so the budget may be passed by one shape.
GemmAutotuneReport autotune_gemms(std::vector<GemmTask> tasks, const GemmAutotune& tuning,
                                  GemmChoices& choices);

}  // namespace troupe::cuda
