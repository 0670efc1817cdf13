// SPDX-License-Identifier: Apache-2.0
// LstmCell, GruCell and the nodes of Tree-LSTMs (gpu/operators/cells/) on a GPU: everything
// behind a cell's products in one pass over gates and states. All columns of an element are read
// before they are written, so a node may write the row that it reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

enum class RecurrentCell : std::uint8_t { kLstm, kGru, kTreeLeaf, kTreeBinary, kTreeChildSum };

// Device pointers; gates lie one behind the other, in the order of the operators' contracts.
struct RecurrentCellArguments {
  RecurrentCell cell = RecurrentCell::kLstm;
  StateRows state;
  std::size_t h_offset = 0;            // floats of a row
  std::size_t c_offset = 0;            // all but kGru
  std::size_t forget_offset = 0;       // kTreeChildSum
  const float* input_gates = nullptr;  // [nodes, gates * width]; kTreeBinary has none
  // kTreeChildSum: one vector of gates for all nodes, as without a word.
  bool shares_input_gates = false;
  const float* state_gates = nullptr;  // [nodes, gates * width]; kTreeLeaf has none
  float* h = nullptr;                  // [nodes, width]
  void* rounded_h = nullptr;           // [nodes, width] of `type`, what the next product reads; or none
  DataType type = DataType::kF32;      // kF16 or kBF16 with rounded_h
  std::uint32_t width = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_recurrent_cell(const RecurrentCellArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
