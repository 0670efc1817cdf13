// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/embed_positions.hpp"

#include "gpu/cuda/kernels/device_clock.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/input_token.cuh"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

template <typename T>
__device__ __forceinline__ Eight load_entry(const EmbedPositionsArguments& a, const void* table,
                                            std::size_t row, unsigned column) {
  const auto* rows = static_cast<const T*>(table);
  return load_eight(rows + row * a.width, column, a.width, are_rows_aligned(rows, a.width));
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads) embed_positions_kernel(const EmbedPositionsArguments a) {
  let_next_kernel_start();
  const Place place = place_of_thread(a.width);
  if (a.began != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *a.began = device_time();
  if (place.row >= a.num_rows) return;
  const auto id = static_cast<std::uint32_t>(input_token(a, place.row));
  Eight x{};
  if (id < a.vocabulary) x = load_entry<T>(a, a.words, id, place.column);  // negative ids are large here
  if (a.num_types > 0) {
    const unsigned type = a.token_types == nullptr ? 0 : a.token_types[place.row];
    add_eight(load_entry<T>(a, a.types, min(type, a.num_types - 1), place.column), x);
  }
  const std::size_t position = std::size_t{a.first_position} + a.places[place.row].position;
  add_eight(load_entry<T>(a, a.positions, position, place.column), x);
  store_eight(a.x + place.row * a.width, place.column, a.width, are_rows_aligned(a.x, a.width), x);
}

}  // namespace

void launch_embed_positions(const EmbedPositionsArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(embed_positions_kernel<decltype(element)>, arguments, stream);
  });
}

}  // namespace troupe::cuda
