// SPDX-License-Identifier: Apache-2.0
// The element-wise part of a recurrent cell, behind its product, over the
// states of its N predecessors (c_k):
//   c = sigmoid(i) * tanh(g) + sum over k of sigmoid(f_k) * c_k
//   h = sigmoid(o) * tanh(c)
// One predecessor is an LSTM (Hochreiter and Schmidhuber, 1997; Gers et al., 2000),
// two are an inner node of a binary TreeLSTM, none is its leaf (Tai et al., 2015,
// equations 9 to 14: a leaf's children are zeros). These are BatchMaker's cells.
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

inline constexpr std::uint32_t kNoState = 0xFFFFFFFF;  // zeros: a sequence begins

// Device pointers; strides in elements.
struct RecurrentCellArguments {
  RecurrentCell cell = RecurrentCell::kLstm;
  // [num_rows, (3 + N) * hidden] of `type`, biases added: i, then f_k of every
  // predecessor (left child first), then g, then o. For an LSTM that is torch's
  // order.
  const void* gates = nullptr;
  std::size_t gates_stride = 0;
  float* c = nullptr;  // [states, hidden]
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
