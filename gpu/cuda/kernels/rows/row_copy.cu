// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/row_copy.hpp"

#include "gpu/cuda/kernels/byte_copy.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kCopyThreads = 128;

template <typename T>
__global__ void __launch_bounds__(kElementThreads) gather_rows_kernel(const GatherRowsArguments a) {
  const Place place = place_of_thread(a.width);
  if (place.row >= a.num_rows) return;
  const std::size_t row = a.rows[place.row];
  Eight sum = load_eight(a.x + row * a.x_stride, place.column, a.width, are_rows_aligned(a.x, a.x_stride));
  if (a.residual != nullptr) {
    const auto* residual = static_cast<const T*>(a.residual);
    const Eight part = load_eight(residual + row * a.residual_stride, place.column, a.width,
                                  are_rows_aligned(residual, a.residual_stride));
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) sum.v[i] += part.v[i];
  }
  store_eight(a.gathered + place.row * a.gathered_stride, place.column, a.width,
              are_rows_aligned(a.gathered, a.gathered_stride), sum);
}

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

void launch_gather_rows(const GatherRowsArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(gather_rows_kernel<decltype(element)>, arguments, stream);
  });
}

void launch_copy_rows(const CopyRowsArguments& arguments, StreamHandle stream) {
  if (arguments.num_rows == 0 || arguments.row_bytes == 0) return;
  launch(copy_rows_kernel, {.grid = arguments.num_rows, .block = kCopyThreads}, stream, arguments);
}

}  // namespace troupe::cuda
