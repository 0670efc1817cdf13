// SPDX-License-Identifier: Apache-2.0
// The element-wise part of LstmCell, TreeLstmLeaf and TreeLstmBinary behind their products
// (gpu/operators/cells/), over the states of a cell's N predecessors (c_k):
//   leaf, N = 0:        c = a
//   LSTM, N = 1:        c = sigmoid(i) tanh(g) + sigmoid(f) c_0
//   inner node, N = 2:  c = sigmoid(i) tanh(u) + sigmoid(l) c_0 + sigmoid(r) c_1
//   all:                h = sigmoid(o) tanh(c)
// These are BatchMaker's cells.
//
// A batch has cells of many sequences and trees, whose states lie anywhere: rows
// of states are found by number, so nothing is gathered before and scattered after.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// The value is the number of predecessors.
enum class RecurrentCell : std::uint8_t { kTreeLeaf = 0, kLstm = 1, kTreeNode = 2 };

constexpr std::uint32_t num_predecessors(RecurrentCell cell) { return static_cast<std::uint32_t>(cell); }
constexpr std::uint32_t num_gates(RecurrentCell cell) {
  return cell == RecurrentCell::kTreeLeaf ? 2 : 3 + num_predecessors(cell);
}

inline constexpr std::uint32_t kNoState = 0xFFFFFFFF;  // zeros: a sequence begins

// Device pointers; strides in elements.
struct RecurrentCellArguments {
  RecurrentCell cell = RecurrentCell::kLstm;
  // [num_rows, num_gates(cell) * hidden] of `type`, biases added, in the order of the operators'
  // contracts: a, o of a leaf; i, f, g, o of an LSTM; i, l, r, o, u of an inner node.
  const void* gates = nullptr;
  // Added to them, of the same shape: an LSTM has a product of its input and one of its state.
  const void* more_gates = nullptr;  // null: none
  std::size_t gates_stride = 0;      // of both
  float* c = nullptr;                // [states, hidden]
  std::size_t c_stride = 0;
  void* h = nullptr;  // [states, hidden] of `type`, written only
  std::size_t h_stride = 0;
  // [num_rows, N]: rows of c, or kNoState; none: row i (LSTM only).
  const std::uint32_t* from = nullptr;
  // [num_rows], no two the same: which row of c and h is written; none: row i.
  // One that is read for another row must not be among them.
  const std::uint32_t* to = nullptr;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;      // cells
  std::uint32_t hidden = 0;
};

// Throws CudaError; std::invalid_argument for a tree's node without `from`. Any
// thread.
void launch_recurrent_cell(const RecurrentCellArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
