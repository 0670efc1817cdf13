// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/gated_activation.hpp"

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"
#include "gpu/cuda/kernels/rows/silu.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kElementThreads) gated_activation_kernel(const GatedActivationArguments a) {
  const Place place = place_of_thread(a.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (place.row >= a.num_rows) return;
  const T* gate = static_cast<const T*>(a.gate_up) + place.row * a.gate_up_stride;
  const T* up = gate + a.width;
  const bool is_aligned = are_rows_aligned(static_cast<const T*>(a.gate_up), a.gate_up_stride);
  const Eight g = load_eight(gate, place.column, a.width, is_aligned);
  Eight h = load_eight(up, place.column, a.width, is_aligned && are_rows_aligned(up, 0));
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) h.v[i] *= silu(g.v[i]);
  T* to = static_cast<T*>(a.h);
  store_eight(to + place.row * a.h_stride, place.column, a.width, are_rows_aligned(to, a.h_stride), h);
}

}  // namespace

void launch_gated_activation(const GatedActivationArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(gated_activation_kernel<decltype(element)>, arguments, stream,
                    arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
