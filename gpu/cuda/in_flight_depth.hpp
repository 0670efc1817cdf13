// SPDX-License-Identifier: Apache-2.0
// How many batches are queued at a GPU, so that it finds the next one when one is done. Each beyond the
// second is another wasted row for every sequence that ends, so there are as few as keep the GPU busy.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::cuda {

struct DecodeStep {
  std::uint64_t weight_bytes = 0;
  std::uint64_t bytes_per_second = 0;  // of the GPU's memory; 0: unknown
  std::uint32_t num_kernels = 0;
};

// No decode step takes less: its kernels begin one after the other, and all weights are read.
std::chrono::nanoseconds least_time(const DecodeStep& step);

// Batches in flight: the one that computes, and behind it as many as take the host's turn, from a result
// until the next batch is queued. In [2, 4].
std::uint32_t in_flight_depth(std::chrono::nanoseconds least_step_time);

}  // namespace troupe::cuda
