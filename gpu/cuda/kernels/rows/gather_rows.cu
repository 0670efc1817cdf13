// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/gather_rows.hpp"

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kElementThreads) gather_rows_kernel(const GatherRowsArguments a) {
  const Place place = place_of_thread(a.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (place.row >= a.num_rows) return;
  const std::size_t row = a.rows[place.row];
  Eight sum = load_eight(a.x + row * a.x_stride, place.column, a.width, are_rows_aligned(a.x, a.x_stride));
  if (a.residual != nullptr) {
    const auto* residual = static_cast<const T*>(a.residual);
    add_eight(load_eight(residual + row * a.residual_stride, place.column, a.width,
                         are_rows_aligned(residual, a.residual_stride)),
              sum);
  }
  store_eight(a.gathered + place.row * a.gathered_stride, place.column, a.width,
              are_rows_aligned(a.gathered, a.gathered_stride), sum);
}

}  // namespace

void launch_gather_rows(const GatherRowsArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(gather_rows_kernel<decltype(element)>, arguments, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
