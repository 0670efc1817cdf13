// SPDX-License-Identifier: Apache-2.0
// Moves rows from place to place: gather and scatter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// to[to_rows[i]] = from[from_rows[i]], row i itself where there is no list. No
// row that is written may be another's source.
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

// Throws CudaError. Any thread.
void launch_copy_rows(const CopyRowsArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
