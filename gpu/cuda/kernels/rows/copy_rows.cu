// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/copy_rows.hpp"

#include "gpu/cuda/kernels/byte_copy.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kCopyThreads = 128;

// A block a row.
__global__ void __launch_bounds__(kCopyThreads) copy_rows_kernel(const CopyRowsArguments a) {
  const std::size_t i = blockIdx.x;
  const std::size_t from_row = a.from_rows == nullptr ? i : a.from_rows[i];
  const std::size_t to_row = a.to_rows == nullptr ? i : a.to_rows[i];
  copy_bytes(static_cast<const std::byte*>(a.from) + from_row * a.from_stride_bytes,
             static_cast<std::byte*>(a.to) + to_row * a.to_stride_bytes, a.row_bytes, threadIdx.x,
             kCopyThreads);
}

}  // namespace

void launch_copy_rows(const CopyRowsArguments& arguments, StreamHandle stream) {
  if (arguments.num_rows == 0 || arguments.row_bytes == 0) return;
  launch(copy_rows_kernel, {.grid = arguments.num_rows, .block = kCopyThreads}, stream, arguments);
}

}  // namespace troupe::cuda
