// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the CPU, under the rules of a GPU of compute capability 9.0.
// include/cuda_runtime.h maps CUDA's names to this; tests call launchers as the
// worker does. One kernel runs at a time; what the orders and permissions are may
// be said by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/simt/interpreter/block_run.hpp"

namespace troupe::simt {

struct LaunchConfig {
  Index3 grid;
  Index3 block;
  std::size_t dynamic_shared_bytes = 0;
  const void* kernel = nullptr;    // whose permission for shared memory counts
  bool overlaps_previous = false;  // programmatic dependent launch
};

// Blocks run one after another, in an order drawn from the seed. Throws
// KernelError, also for a launch that a GPU refuses. `previous_stores`, or none: of a launch that
// overlaps the kernel which made them. True: it has let the next kernel start early.
bool run_grid(const LaunchConfig& config, const std::function<void()>& body,
              HiddenStores* previous_stores = nullptr);

// Throws KernelError for a launch that a GPU refuses.
void check_launch(const LaunchConfig& config);

// What cudaFuncSetAttribute sets; without it 48 KiB.
void allow_dynamic_shared(const void* kernel, std::size_t size_bytes);

// The part of a multiprocessor's memory that a kernel wants as shared memory, in percent; -1: the
// driver's choice. Between two kernels of different ones a multiprocessor has to be empty.
void prefer_shared_carveout(const void* kernel, int percent);
int shared_carveout(const void* kernel);

// Orders of threads, of blocks and of what streams do, from now on; 0 is ascending.
void set_order(std::uint64_t seed);
std::uint64_t order();

// Calls `body` under some orders, ascending first.
template <typename Body>
void in_several_orders(Body body) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    set_order(seed);
    body();
  }
  set_order(0);
}

// Throws KernelError unless `address` is a multiple of `alignment`.
void check_aligned(const void* address, std::size_t alignment);

}  // namespace troupe::simt
