// SPDX-License-Identifier: Apache-2.0
// Moves rows: those that are sampled (with the last residual added), and any
// rows from place to place, which is gather, scatter and slot compaction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// gathered[i] = x[rows[i]] (+ residual[rows[i]]). Device pointers; strides in
// elements.
struct GatherRowsArguments {
  const float* x = nullptr;  // [tokens, width]
  std::size_t x_stride = 0;
  const void* residual = nullptr;  // [tokens, width] of `type`, or none
  std::size_t residual_stride = 0;
  DataType type = DataType::kF32;       // kF32, kF16 or kBF16
  const std::uint32_t* rows = nullptr;  // [num_rows]
  float* gathered = nullptr;            // [num_rows, width]
  std::size_t gathered_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
};

// to[to_rows[i]] = from[from_rows[i]], row i itself where there is no list. No
// row that is written may be another's source: compaction keeps to that, its
// sources lie outside the window and its targets inside (policy/forming/slot_compaction).
struct CopyRowsArguments {
  const void* from = nullptr;
  std::size_t from_stride_bytes = 0;
  const std::uint32_t* from_rows = nullptr;  // [num_rows], or none
  void* to = nullptr;
  std::size_t to_stride_bytes = 0;
  const std::uint32_t* to_rows = nullptr;  // [num_rows], or none
  std::uint32_t num_rows = 0;
  std::uint32_t row_bytes = 0;
};

// Throw CudaError. Any thread.
void launch_gather_rows(const GatherRowsArguments& arguments, StreamHandle stream);
void launch_copy_rows(const CopyRowsArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
