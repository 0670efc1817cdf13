// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/cells/recurrent_cell.hpp"

#include <type_traits>

#include "gpu/cuda/kernels/cells/state_rows.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

// A multiprocessor has so many, at least. For more of them the compiler would save registers, and loads would
// wait for one another. Read by CUDA's compiler alone.
[[maybe_unused]] constexpr unsigned kBlocks = 2;

// As launch_elements() wants its arguments.
struct CellRows {
  RecurrentCellArguments a;
  std::uint32_t num_rows;
  std::uint32_t width;
  bool is_whole;  // are_columns_whole()
};

// A thread's columns of the node's new state.
struct NewState {
  Eight h;
  Eight c;
};

// Ends at 0 and 1 for what is far from 0: exp(-v) may be infinite, never NaN. The division has no
// branch, as a rounded one has.
__device__ __forceinline__ float sigmoid(float v) { return __fdividef(1.0F, 1.0F + __expf(-v)); }

// The thread's columns of a node's gates, of which a row has kGates.
template <unsigned kGates, bool kIsWhole>
struct GateColumns {
  const float* row;
  unsigned column;
  std::uint32_t width;

  __device__ __forceinline__ GateColumns(const float* gates, std::size_t node, unsigned first,
                                         std::uint32_t columns)
      : row(gates + node * kGates * columns), column(first), width(columns) {}
  __device__ __forceinline__ Eight operator()(unsigned gate) const {
    return load_columns<kIsWhole>(row + std::size_t{gate} * width, column, width);
  }
};

// The same gate of two products.
template <class Left, class Right>
__device__ __forceinline__ Eight sum_of_gates(const Left& left, const Right& right, unsigned gate) {
  Eight sum = left(gate);
  add_eight(right(gate), sum);
  return sum;
}

// h of c and the output gate.
__device__ __forceinline__ NewState finish(const Eight& c, const Eight& output) {
  NewState next{.h = {}, .c = c};
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) next.h.v[i] = sigmoid(output.v[i]) * tanhf(c.v[i]);
  return next;
}

__device__ __forceinline__ Eight candidate(const Eight& input, const Eight& update) {
  Eight c;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) c.v[i] = sigmoid(input.v[i]) * tanhf(update.v[i]);
  return c;
}

// c += sigmoid(forget) * state
__device__ __forceinline__ void keep_part(const Eight& forget, const Eight& state, Eight& c) {
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) c.v[i] += sigmoid(forget.v[i]) * state.v[i];
}

template <bool kIsWhole>
__device__ __forceinline__ NewState lstm_step(const RecurrentCellArguments& a, const NodeRows& node,
                                              const Place& place) {
  const GateColumns<4, kIsWhole> input(a.input_gates, place.row, place.column, a.width);
  const GateColumns<4, kIsWhole> state(a.state_gates, place.row, place.column, a.width);
  Eight c = candidate(sum_of_gates(input, state, 0), sum_of_gates(input, state, 2));
  keep_part(sum_of_gates(input, state, 1),
            load_state<kIsWhole>(a.state, node, 0, a.c_offset, place.column, a.width), c);
  return finish(c, sum_of_gates(input, state, 3));
}

template <bool kIsWhole>
__device__ __forceinline__ NewState gru_step(const RecurrentCellArguments& a, const NodeRows& node,
                                             const Place& place) {
  const GateColumns<3, kIsWhole> input(a.input_gates, place.row, place.column, a.width);
  const GateColumns<3, kIsWhole> state(a.state_gates, place.row, place.column, a.width);
  const Eight reset = sum_of_gates(input, state, 0), update = sum_of_gates(input, state, 1);
  const Eight input_new = input(2), state_new = state(2);
  const Eight before = load_state<kIsWhole>(a.state, node, 0, a.h_offset, place.column, a.width);
  NewState next{};
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) {
    const float n = tanhf(input_new.v[i] + sigmoid(reset.v[i]) * state_new.v[i]);
    const float z = sigmoid(update.v[i]);
    next.h.v[i] = (1.0F - z) * n + z * before.v[i];
  }
  return next;
}

template <bool kIsWhole>
__device__ __forceinline__ NewState leaf_step(const RecurrentCellArguments& a, const Place& place) {
  const GateColumns<2, kIsWhole> gates(a.input_gates, place.row, place.column, a.width);
  return finish(gates(0), gates(1));
}

template <bool kIsWhole>
__device__ __forceinline__ NewState binary_step(const RecurrentCellArguments& a, const NodeRows& node,
                                                const Place& place) {
  const GateColumns<5, kIsWhole> gates(a.state_gates, place.row, place.column, a.width);
  Eight c = candidate(gates(0), gates(4));
#pragma unroll
  for (unsigned child = 0; child < 2; ++child)
    keep_part(gates(1 + child), load_state<kIsWhole>(a.state, node, child, a.c_offset, place.column, a.width),
              c);
  return finish(c, gates(3));
}

template <bool kIsWhole>
__device__ __forceinline__ NewState child_sum_step(const RecurrentCellArguments& a, const NodeRows& node,
                                                   const Place& place) {
  const GateColumns<4, kIsWhole> input(a.input_gates, a.shares_input_gates ? 0 : place.row, place.column,
                                       a.width);
  const GateColumns<3, kIsWhole> state(a.state_gates, place.row, place.column, a.width);
  Eight c = candidate(sum_of_gates(input, state, 0), sum_of_gates(input, state, 2));
  const Eight of_node = input(3);
  for (std::uint32_t child = 0; child < node.num_inputs; ++child) {
    Eight forget = load_state<kIsWhole>(a.state, node, child, a.forget_offset, place.column, a.width);
    add_eight(of_node, forget);
    keep_part(forget, load_state<kIsWhole>(a.state, node, child, a.c_offset, place.column, a.width), c);
  }
  return finish(c, sum_of_gates(input, state, 1));
}

template <RecurrentCell kCell, bool kIsWhole>
__device__ __forceinline__ NewState step(const RecurrentCellArguments& a, const NodeRows& node,
                                         const Place& place) {
  if constexpr (kCell == RecurrentCell::kLstm) {
    return lstm_step<kIsWhole>(a, node, place);
  } else if constexpr (kCell == RecurrentCell::kGru) {
    return gru_step<kIsWhole>(a, node, place);
  } else if constexpr (kCell == RecurrentCell::kTreeLeaf) {
    return leaf_step<kIsWhole>(a, place);
  } else if constexpr (kCell == RecurrentCell::kTreeBinary) {
    return binary_step<kIsWhole>(a, node, place);
  } else {
    return child_sum_step<kIsWhole>(a, node, place);
  }
}

// T: of rounded_h; float: there is none.
template <typename T, RecurrentCell kCell>
__global__ void __launch_bounds__(kElementThreads, kBlocks) recurrent_cell_kernel(const CellRows rows) {
  const RecurrentCellArguments& a = rows.a;
  const Place place = place_of_thread(a.width);
  const bool is_there = place.row < rows.num_rows;
  // The batch's description, which no kernel writes.
  const NodeRows node = is_there ? a.state.nodes[place.row] : NodeRows{};
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!is_there) return;
  const NewState next =
      rows.is_whole ? step<kCell, true>(a, node, place) : step<kCell, false>(a, node, place);
  store_state(a.state, node, a.h_offset, place.column, a.width, next.h);
  if constexpr (kCell != RecurrentCell::kGru)
    store_state(a.state, node, a.c_offset, place.column, a.width, next.c);
  store_eight(a.h + place.row * a.width, place.column, a.width, are_rows_aligned(a.h, a.width), next.h);
  if constexpr (!std::is_same_v<T, float>) {
    T* rounded = static_cast<T*>(a.rounded_h);
    store_eight(rounded + place.row * a.width, place.column, a.width, are_rows_aligned(rounded, a.width),
                next.h);
  }
}

template <typename T>
auto kernel_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kGru: return recurrent_cell_kernel<T, RecurrentCell::kGru>;
    case RecurrentCell::kTreeLeaf: return recurrent_cell_kernel<T, RecurrentCell::kTreeLeaf>;
    case RecurrentCell::kTreeBinary: return recurrent_cell_kernel<T, RecurrentCell::kTreeBinary>;
    case RecurrentCell::kTreeChildSum: return recurrent_cell_kernel<T, RecurrentCell::kTreeChildSum>;
    default: return recurrent_cell_kernel<T, RecurrentCell::kLstm>;
  }
}

}  // namespace

void launch_recurrent_cell(const RecurrentCellArguments& arguments, StreamHandle stream) {
  const CellRows rows{arguments, arguments.state.num_nodes, arguments.width,
                      are_columns_whole(arguments.state, arguments.width,
                                        {arguments.h_offset, arguments.c_offset, arguments.forget_offset},
                                        {arguments.input_gates, arguments.state_gates})};
  const DataType type = arguments.rounded_h == nullptr ? DataType::kF32 : arguments.type;
  with_element_type(type, [&](auto element) {
    launch_elements(kernel_of<decltype(element)>(arguments.cell), rows, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
