// SPDX-License-Identifier: Apache-2.0
// One thread for eight neighbouring columns of a row, for kernels that look at
// every element by itself.
#pragma once

#include <cstdint>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

inline constexpr unsigned kElementThreads = 256;

// Nothing to do, no launch. overlaps_previous: as LaunchShape's.
template <typename Arguments>
void launch_elements(void (*kernel)(Arguments), const Arguments& arguments, StreamHandle stream,
                     bool overlaps_previous = false) {
  if (arguments.num_rows == 0 || arguments.width == 0) return;
  const std::uint64_t threads = std::uint64_t{arguments.num_rows} * divide_up(arguments.width, kEight);
  launch(kernel,
         {.grid = static_cast<unsigned>(divide_up(threads, kElementThreads)),
          .block = kElementThreads,
          .overlaps_previous = overlaps_previous},
         stream, arguments);
}

struct Place {
  std::size_t row;  // may lie behind the last one: nothing to do
  unsigned column;  // the first of eight
};

__device__ __forceinline__ Place place_of_thread(std::uint32_t width) {
  const unsigned steps = divide_up(width, kEight);
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  return {static_cast<std::size_t>(thread / steps), static_cast<unsigned>(thread % steps) * kEight};
}

}  // namespace troupe::cuda
