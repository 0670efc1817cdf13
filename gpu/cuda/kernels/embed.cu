// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/embed.hpp"

#include "gpu/cuda/kernels/device_clock.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/input_token.cuh"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kElementThreads) embed_kernel(const EmbedArguments a) {
  let_next_kernel_start();
  const Place place = place_of_thread(a.width);
  if (a.began != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *a.began = device_time();
  if (place.row >= a.num_rows) return;
  const auto id = static_cast<std::uint32_t>(input_token(a, place.row));
  const auto* table = static_cast<const T*>(a.table);
  Eight x{};
  if (id < a.vocabulary) {  // negative ids are large here
    x = load_eight(table + id * a.table_stride, place.column, a.width,
                   are_rows_aligned(table, a.table_stride));
  }
  store_eight(a.x + place.row * a.x_stride, place.column, a.width, are_rows_aligned(a.x, a.x_stride), x);
}

}  // namespace

void launch_embed(const EmbedArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(embed_kernel<decltype(element)>, arguments, stream);
  });
}

}  // namespace troupe::cuda
