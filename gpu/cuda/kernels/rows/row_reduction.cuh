// SPDX-License-Identifier: Apache-2.0
// The frame of kernels that reduce each row of a matrix and then write the row
// anew: norms. A thread has eight columns of a row, in steps of the
// block's size; those of the first step stay in registers, so that rows of up to
// 8192 columns are read once. Narrow rows come several a block, reduced together
// (TurboTransformers' batch reduction, see reductions.cuh).
//
// An operation is a plain struct that travels as the kernel's argument:
//   using State                        what is reduced
//   num_rows(), width()
//   none()                             the State of no columns
//   load(row, column)                  eight columns, on the first pass
//   load_again(row, column)            the same on the second
//   state_of(eight, column)            of these columns
//   merge(State, State)
//   store(row, column, eight, State)   with the State of the whole row
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/reductions.cuh"

namespace troupe::cuda {

inline constexpr unsigned kMaxRowThreads = 1024;
inline constexpr int kRowsTogether = 4;
inline constexpr std::uint32_t kNarrow = 1024;  // columns of rows that come together

// Several rows need more registers than 1024 threads could have, and have few threads.
template <int kRows>
inline constexpr unsigned kMostThreadsOfRows = kRows == 1 ? kMaxRowThreads : kNarrow / kEight;

template <typename Operation, int kRows>
__global__ void __launch_bounds__(kMostThreadsOfRows<kRows>) reduce_rows_kernel(const Operation operation) {
  using State = typename Operation::State;
  __shared__ ReductionScratch<State, kRows> scratch;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const std::size_t first_row = std::size_t{blockIdx.x} * kRows;
  const unsigned first = threadIdx.x * kEight;
  const unsigned step = blockDim.x * kEight;
  Eight kept[kRows];
  State states[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) states[r] = operation.none();
  for (unsigned column = first; column < operation.width(); column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::size_t row = first_row + r;
      if (row >= operation.num_rows()) continue;
      const Eight x = operation.load(row, column);
      if (column == first) kept[r] = x;
      states[r] = operation.merge(states[r], operation.state_of(x, column));
    }
  }
  reduce_block(
      states, operation.none(),
      [&](const State& left, const State& right) { return operation.merge(left, right); }, scratch);
  for (unsigned column = first; column < operation.width(); column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::size_t row = first_row + r;
      if (row >= operation.num_rows()) continue;
      const Eight x = column == first ? kept[r] : operation.load_again(row, column);
      operation.store(row, column, x, states[r]);
    }
  }
}

// No rows or no columns, no launch. A row's result does not depend on
// how many rows a block has. overlaps_previous: as LaunchShape's.
template <typename Operation>
void launch_rows(const Operation& operation, StreamHandle stream, bool overlaps_previous) {
  constexpr std::uint32_t kEnoughBlocks = 2 * 132;  // fill a large GPU twice over
  const std::uint32_t num_rows = operation.num_rows(), width = operation.width();
  if (num_rows == 0 || width == 0) return;
  const unsigned threads =
      std::min(kMaxRowThreads, divide_up(divide_up(width, kEight), kWarpLanes) * kWarpLanes);
  if (width <= kNarrow && num_rows >= kRowsTogether * kEnoughBlocks) {
    launch(reduce_rows_kernel<Operation, kRowsTogether>,
           {.grid = divide_up(num_rows, kRowsTogether),
            .block = threads,
            .overlaps_previous = overlaps_previous},
           stream, operation);
  } else {
    launch(reduce_rows_kernel<Operation, 1>,
           {.grid = num_rows, .block = threads, .overlaps_previous = overlaps_previous}, stream, operation);
  }
}

}  // namespace troupe::cuda
