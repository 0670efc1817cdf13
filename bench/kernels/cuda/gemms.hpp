// SPDX-License-Identifier: Apache-2.0
// The fastest way to compute a product, found as the worker finds it at start.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bench/kernels/cuda/device.hpp"
#include "gpu/cuda/gemm/gemm_candidates.hpp"

namespace troupe::bench {

// Ways to compute products, and memory that they need.
class Gemms {
 public:
  // Room for shapes up to `largest` in tokens, outputs and depth.
  Gemms(const Stopwatch& stopwatch, const cuda::GemmShape& largest);

  // The fastest of all ways, or of cuBLASLt's, which run() then uses. `weights`:
  // run i reads the i-th, round and round. Throws std::runtime_error if there is
  // none.
  cuda::GemmChoice tune(const cuda::GemmShape& shape, const std::vector<const void*>& weights,
                        bool only_cublas = false);
  // The heuristics' first choice; nullopt: there is none.
  std::optional<double> microseconds_of_first(const cuda::GemmShape& shape,
                                              const std::vector<const void*>& weights);
  void run(const cuda::GemmShape& shape, const cuda::GemmPointers& pointers);

 private:
  std::vector<cuda::GemmCandidate> candidates(const cuda::GemmShape& shape,
                                              const std::vector<const void*>& weights);

  const Stopwatch& stopwatch_;
  std::size_t scratch_bytes_;
  DeviceBuffer workspace_, few_token_workspace_, scratch_;
  cuda::CublasGemms gemms_;
};

}  // namespace troupe::bench
