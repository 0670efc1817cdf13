// SPDX-License-Identifier: Apache-2.0
// A block walks through a long row. With one block a row, and one row in a batch,
// there is no other block to hide what a read takes: several are on their way to a
// thread at once.
#pragma once

#include <cuda_runtime.h>

namespace troupe::cuda {

inline constexpr unsigned kReadsAhead = 8;

// Calls body(i, load(i)) for i = threadIdx.x, threadIdx.x + blockDim.x …; it may
// write where its own i was read. Any threads of the block.
template <typename Load, typename Body>
__device__ __forceinline__ void walk_row(unsigned count, Load load, Body body) {
  const unsigned step = blockDim.x;
  unsigned i = threadIdx.x;
  for (; i + (kReadsAhead - 1) * step < count; i += kReadsAhead * step) {
    decltype(load(0U)) values[kReadsAhead];
#pragma unroll
    for (unsigned j = 0; j < kReadsAhead; ++j) values[j] = load(i + j * step);
#pragma unroll
    for (unsigned j = 0; j < kReadsAhead; ++j) body(i + j * step, values[j]);
  }
  for (; i < count; i += step) body(i, load(i));
}

}  // namespace troupe::cuda
