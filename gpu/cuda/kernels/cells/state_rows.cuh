// SPDX-License-Identifier: Apache-2.0
// Eight neighbouring columns of a part of a row of state: of one that a node reads, or of
// the one that it writes. Part: floats [offset, offset + width) of the row.
//
// Where all of them are whole, which the host knows, kernels take them without asking of each:
// a branch a load would keep the loads of a cell's gates apart.
#pragma once

#include <initializer_list>

#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "gpu/cuda/kernels/eight.cuh"

namespace troupe::cuda {

// All parts of rows, and rows of a matrix [nodes, width], begin at multiples of 16 bytes, and eight
// columns are never cut short. Offsets and pointers are those that the kernel uses.
inline bool are_columns_whole(const StateRows& state, std::uint32_t width,
                              std::initializer_list<std::size_t> offsets,
                              std::initializer_list<const void*> pointers) {
  constexpr std::size_t kBytes = 16, kFloats = kBytes / sizeof(float);
  bool are_whole = width % kEight == 0 && state.width % kFloats == 0 &&
                   reinterpret_cast<std::uintptr_t>(state.rows) % kBytes == 0;
  for (const std::size_t offset : offsets) are_whole = are_whole && offset % kFloats == 0;
  for (const void* pointer : pointers)
    are_whole = are_whole && reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0;
  return are_whole;
}

// Columns [column, column + 8) of a row of a matrix. kIsWhole: are_columns_whole().
template <bool kIsWhole>
__device__ __forceinline__ Eight load_columns(const float* row, unsigned column, std::uint32_t width) {
  if constexpr (kIsWhole) {
    return load_aligned(row + column);
  } else {
    return load_eight(row, column, width, false);
  }
}

// Zeros of an input that the node lacks.
template <bool kIsWhole>
__device__ __forceinline__ Eight load_state(const StateRows& state, const NodeRows& node, std::uint32_t input,
                                            std::size_t offset, unsigned column, std::uint32_t width) {
  if (input >= node.num_inputs) return {};
  const float* part = state.rows + state.inputs[node.first_input + input] * state.width + offset;
  return load_columns<kIsWhole>(part, column, width);
}

__device__ __forceinline__ void store_state(const StateRows& state, const NodeRows& node, std::size_t offset,
                                            unsigned column, std::uint32_t width, const Eight& values) {
  float* part = state.rows + node.row * state.width + offset;
  store_eight(part, column, width, are_rows_aligned(part, state.width), values);
}

}  // namespace troupe::cuda
