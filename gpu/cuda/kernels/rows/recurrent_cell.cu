// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/recurrent_cell.hpp"

#include <stdexcept>

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

// As launch_elements() wants its arguments.
struct CellRows {
  RecurrentCellArguments a;
  std::uint32_t num_rows;
  std::uint32_t width;  // hidden
};

// Ends at 0 and 1 for what is far from 0: exp(-v) may be infinite, never NaN.
__device__ __forceinline__ float sigmoid(float v) { return 1.0F / (1.0F + __expf(-v)); }

// Gate `number` of the thread's eight columns.
template <typename T>
__device__ __forceinline__ Eight load_gate_of(const CellRows& rows, const Place& place, unsigned number,
                                              const void* all) {
  const T* gates = static_cast<const T*>(all) + std::size_t{number} * rows.width;
  return load_eight(gates + place.row * rows.a.gates_stride, place.column, rows.width,
                    are_rows_aligned(gates, rows.a.gates_stride));
}

template <typename T>
__device__ __forceinline__ Eight load_gate(const CellRows& rows, const Place& place, unsigned number) {
  Eight gate = load_gate_of<T>(rows, place, number, rows.a.gates);
  if (rows.a.more_gates == nullptr) return gate;
  const Eight more = load_gate_of<T>(rows, place, number, rows.a.more_gates);
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) gate.v[i] += more.v[i];
  return gate;
}

__device__ __forceinline__ Eight load_state(const CellRows& rows, std::uint32_t number, unsigned column) {
  if (number == kNoState) return {};
  return load_eight(rows.a.c + std::size_t{number} * rows.a.c_stride, column, rows.width,
                    are_rows_aligned(rows.a.c, rows.a.c_stride));
}

template <typename T, int kPredecessors>
__global__ void __launch_bounds__(kElementThreads) recurrent_cell_kernel(const CellRows rows) {
  const RecurrentCellArguments& a = rows.a;
  const Place place = place_of_thread(rows.width);
  if (place.row >= rows.num_rows) return;
  const auto row = static_cast<std::uint32_t>(place.row);

  constexpr unsigned kCandidate = kPredecessors == 0 ? 0 : kPredecessors == 1 ? 2 : 4;
  constexpr unsigned kOutput = kPredecessors == 0 ? 1 : 3;
  Eight h = load_gate<T>(rows, place, kOutput);
  Eight c = load_gate<T>(rows, place, kCandidate);
  if constexpr (kPredecessors > 0) {  // a leaf's c is no gate's
    const Eight input = load_gate<T>(rows, place, 0);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) c.v[i] = sigmoid(input.v[i]) * tanhf(c.v[i]);
  }
#pragma unroll
  for (int k = 0; k < kPredecessors; ++k) {
    const std::uint32_t from = a.from == nullptr ? row : a.from[place.row * kPredecessors + k];
    const Eight forget = load_gate<T>(rows, place, 1 + k);
    const Eight state = load_state(rows, from, place.column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) c.v[i] += sigmoid(forget.v[i]) * state.v[i];
  }
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) h.v[i] = sigmoid(h.v[i]) * tanhf(c.v[i]);

  const std::size_t to = a.to == nullptr ? row : a.to[place.row];
  store_eight(a.c + to * a.c_stride, place.column, rows.width, are_rows_aligned(a.c, a.c_stride), c);
  auto* hidden = static_cast<T*>(a.h);
  store_eight(hidden + to * a.h_stride, place.column, rows.width, are_rows_aligned(hidden, a.h_stride), h);
}

template <typename T>
auto kernel_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kTreeLeaf: return recurrent_cell_kernel<T, 0>;
    case RecurrentCell::kTreeNode: return recurrent_cell_kernel<T, 2>;
    default: return recurrent_cell_kernel<T, 1>;
  }
}

}  // namespace

void launch_recurrent_cell(const RecurrentCellArguments& arguments, StreamHandle stream) {
  if (arguments.cell == RecurrentCell::kTreeNode && arguments.num_rows > 0 && arguments.from == nullptr) {
    throw std::invalid_argument("a tree's node needs the rows of its children's states");
  }
  const CellRows rows{arguments, arguments.num_rows, arguments.hidden};
  with_element_type(arguments.type, [&](auto element) {
    launch_elements(kernel_of<decltype(element)>(arguments.cell), rows, stream);
  });
}

}  // namespace troupe::cuda
