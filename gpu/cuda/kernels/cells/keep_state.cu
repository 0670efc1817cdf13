// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/cells/keep_state.hpp"

#include "gpu/cuda/kernels/cells/state_rows.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

// As launch_elements() wants its arguments.
struct KeptRows {
  KeepStateArguments a;
  std::uint32_t num_rows;
  std::uint32_t width;
};

__global__ void __launch_bounds__(kElementThreads) keep_state_kernel(const KeptRows rows) {
  const KeepStateArguments& a = rows.a;
  const Place place = place_of_thread(a.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (place.row >= rows.num_rows) return;
  store_state(a.state, a.state.nodes[place.row], a.offset, place.column, a.width,
              load_eight(a.x + place.row * a.width, place.column, a.width, are_rows_aligned(a.x, a.width)));
}

}  // namespace

void launch_keep_state(const KeepStateArguments& arguments, StreamHandle stream) {
  launch_elements(keep_state_kernel, KeptRows{arguments, arguments.state.num_nodes, arguments.width}, stream,
                  arguments.overlaps_previous);
}

}  // namespace troupe::cuda
