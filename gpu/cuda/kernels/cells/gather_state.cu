// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/cells/gather_state.hpp"

#include "gpu/cuda/kernels/cells/state_rows.cuh"
#include "gpu/cuda/kernels/device_clock.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

// As launch_elements() wants its arguments. Side by side, a row is one input of a node.
struct GatheredRows {
  GatherStateArguments a;
  std::uint32_t num_rows;
  std::uint32_t width;
  bool is_whole;  // are_columns_whole()
};

// Inputs are added in their order.
template <bool kIsWhole>
__device__ __forceinline__ Eight gathered_columns(const GatherStateArguments& a, const NodeRows& node,
                                                  std::uint32_t input, unsigned column) {
  if (!a.sums) return load_state<kIsWhole>(a.state, node, input, a.offset, column, a.width);
  Eight sum{};
  for (std::uint32_t i = 0; i < node.num_inputs; ++i)
    add_eight(load_state<kIsWhole>(a.state, node, i, a.offset, column, a.width), sum);
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads) gather_state_kernel(const GatheredRows rows) {
  const GatherStateArguments& a = rows.a;
  const Place place = place_of_thread(a.width);
  const bool is_there = place.row < rows.num_rows;
  const std::uint32_t rows_a_node = a.sums ? 1 : a.num_inputs;
  // The batch's description, which no kernel writes.
  const NodeRows node = is_there ? a.state.nodes[place.row / rows_a_node] : NodeRows{};
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (a.began != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *a.began = device_time();
  if (!is_there) return;
  const auto input = a.first_input + static_cast<std::uint32_t>(place.row % rows_a_node);
  const Eight values = rows.is_whole ? gathered_columns<true>(a, node, input, place.column)
                                     : gathered_columns<false>(a, node, input, place.column);
  T* gathered = static_cast<T*>(a.gathered);
  store_eight(gathered + place.row * a.width, place.column, a.width, are_rows_aligned(gathered, a.width),
              values);
}

}  // namespace

void launch_gather_state(const GatherStateArguments& arguments, StreamHandle stream) {
  const std::uint32_t rows_a_node = arguments.sums ? 1 : arguments.num_inputs;
  const GatheredRows rows{arguments, arguments.state.num_nodes * rows_a_node, arguments.width,
                          are_columns_whole(arguments.state, arguments.width, {arguments.offset}, {})};
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(gather_state_kernel<decltype(element)>, rows, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
