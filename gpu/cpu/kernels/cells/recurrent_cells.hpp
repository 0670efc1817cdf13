// SPDX-License-Identifier: Apache-2.0
// LstmCell, GruCell, the nodes of Tree-LSTMs and attention to states (gpu/operators/cells/) on CPU
// cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/cells/state_rows.hpp"
#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct LstmCellArguments {
  StateRows state;
  std::size_t h_offset = 0, c_offset = 0;
  const float* input_gates = nullptr;  // [nodes, 4 width]
  const float* state_gates = nullptr;
  float* h = nullptr;  // [nodes, width]
  std::size_t width = 0;
  Isa isa = best_isa();
};
// A task is a few nodes.
std::size_t lstm_cell_num_tasks(const LstmCellArguments& arguments);
void lstm_cell_run_task(const LstmCellArguments& arguments, std::size_t task);

struct GruCellArguments {
  StateRows state;
  std::size_t h_offset = 0;
  const float* input_gates = nullptr;  // [nodes, 3 width]
  const float* state_gates = nullptr;
  float* h = nullptr;  // [nodes, width]
  std::size_t width = 0;
  Isa isa = best_isa();
};
std::size_t gru_cell_num_tasks(const GruCellArguments& arguments);
void gru_cell_run_task(const GruCellArguments& arguments, std::size_t task);

enum class TreeNodeKind : unsigned char { kLeaf, kBinary, kChildSum };

struct TreeLstmArguments {
  StateRows state;
  TreeNodeKind kind = TreeNodeKind::kLeaf;
  std::size_t h_offset = 0, c_offset = 0;
  std::size_t forget_offset = 0;       // kChildSum
  const float* gates = nullptr;        // [nodes, 2, 5 or 3 width]
  const float* input_gates = nullptr;  // kChildSum: [nodes, 4 width]
  std::size_t input_stride = 0;        // of these, from node to node; 0: all have the same
  float* h = nullptr;                  // [nodes, width]
  std::size_t width = 0;
  Isa isa = best_isa();
};
std::size_t tree_lstm_num_tasks(const TreeLstmArguments& arguments);
void tree_lstm_run_task(const TreeLstmArguments& arguments, std::size_t task);

struct AttendStatesArguments {
  StateRows state;
  std::size_t key_offset = 0, value_offset = 0;
  const float* query = nullptr;  // [nodes, width]
  const float* h = nullptr;      // [nodes, width]
  float* context = nullptr;      // [nodes, 2 width]: h is put behind it
  std::size_t width = 0;
  Isa isa = best_isa();
};
// A task is a node.
std::size_t attend_states_num_tasks(const AttendStatesArguments& arguments);
void attend_states_run_task(const AttendStatesArguments& arguments, std::size_t task);

struct AdditiveAttentionArguments {
  StateRows state;
  std::size_t key_offset = 0, value_offset = 0;
  const float* query = nullptr;   // [nodes, width]
  const float* weight = nullptr;  // [width]
  const float* x = nullptr;       // [nodes, x_width]
  std::size_t x_width = 0;
  float* x_and_context = nullptr;  // [nodes, x_width + width]
  std::size_t width = 0;
  Isa isa = best_isa();
};
// A task is a node.
std::size_t additive_attention_num_tasks(const AdditiveAttentionArguments& arguments);
void additive_attention_run_task(const AdditiveAttentionArguments& arguments, std::size_t task);

}  // namespace troupe
