// SPDX-License-Identifier: Apache-2.0
// How rows are given to blocks by kernels that reduce over rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

inline constexpr unsigned kMaxNormThreads = 1024;
inline constexpr int kRowsTogether = 4;  // batch reduction, where there are rows enough

// A thread for eight columns. What a row's result is does not depend on how
// many rows a block has.
inline unsigned threads_of_row(std::uint32_t width) {
  const unsigned threads = divide_up(divide_up(width, kEight), kWarpLanes) * kWarpLanes;
  return std::clamp(threads, kWarpLanes, kMaxNormThreads);
}

// Narrow rows come several a block once they fill a large GPU twice over.
inline bool should_join_rows(std::uint32_t num_rows, std::uint32_t width) {
  constexpr std::uint32_t kNarrow = 1024;
  constexpr std::uint32_t kEnoughBlocks = 2 * 132;
  return width <= kNarrow && num_rows >= kRowsTogether * kEnoughBlocks;
}

// `one` has a row a block, `joined` kRowsTogether. Nothing to do, no launch.
template <typename Arguments>
void launch_rows(void (*one)(Arguments), void (*joined)(Arguments), const Arguments& arguments,
                 StreamHandle stream) {
  if (arguments.num_rows == 0 || arguments.width == 0) return;
  const bool is_joined = should_join_rows(arguments.num_rows, arguments.width);
  const std::uint32_t rows_of_block = is_joined ? kRowsTogether : 1;
  launch(is_joined ? joined : one,
         {.grid = divide_up(arguments.num_rows, rows_of_block),
          .block = threads_of_row(arguments.width)},
         stream, arguments);
}

}  // namespace troupe::cuda
