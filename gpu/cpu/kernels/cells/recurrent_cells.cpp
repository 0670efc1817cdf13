// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kNodesOfTask = 4;

std::size_t num_tasks(const StateRows& state) {
  return (state.nodes.size() + kNodesOfTask - 1) / kNodesOfTask;
}

// The rest of an element's inputs is read before it is written, so a node may write the row
// that it reads.
template <class Run>
void run_nodes(const StateRows& state, std::size_t task, const Run& run) {
  const std::size_t end = std::min(state.nodes.size(), (task + 1) * kNodesOfTask);
  for (std::size_t node = task * kNodesOfTask; node < end; ++node) run(node);
}

// context += softmax(scores) times the values of a node's inputs, of which the first is none. Adds
// up in their order. At least one score.
void add_values(const KernelTable& kernels, const StateRows& state, std::size_t node,
                std::size_t value_offset, std::vector<float>& scores, float* context, std::size_t width) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  kernels.exponentiate(scores.data(), highest, 1.0F, scores.data(), scores.size());
  float sum = 0.0F;
  for (const float share : scores) sum += share;
  for (std::size_t i = 0; i < scores.size(); ++i)
    kernels.add_scaled(scores[i] / sum, state.input(node, i + 1) + value_offset, context, width);
}

}  // namespace

std::size_t lstm_cell_num_tasks(const LstmCellArguments& arguments) { return num_tasks(arguments.state); }

void lstm_cell_run_task(const LstmCellArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const StateRows& state = arguments.state;
  run_nodes(state, task, [&](std::size_t node) {
    kernels.lstm_node({.input_gates = arguments.input_gates + node * 4 * arguments.width,
                       .state_gates = arguments.state_gates + node * 4 * arguments.width,
                       .state = state.input(node, 0) + arguments.c_offset,
                       .new_state = state.written(node) + arguments.c_offset,
                       .kept_h = state.written(node) + arguments.h_offset,
                       .h = arguments.h + node * arguments.width,
                       .width = arguments.width});
  });
}

std::size_t gru_cell_num_tasks(const GruCellArguments& arguments) { return num_tasks(arguments.state); }

void gru_cell_run_task(const GruCellArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const StateRows& state = arguments.state;
  run_nodes(state, task, [&](std::size_t node) {
    kernels.gru_node({.input_gates = arguments.input_gates + node * 3 * arguments.width,
                      .state_gates = arguments.state_gates + node * 3 * arguments.width,
                      .state = state.input(node, 0) + arguments.h_offset,
                      .new_state = nullptr,
                      .kept_h = state.written(node) + arguments.h_offset,
                      .h = arguments.h + node * arguments.width,
                      .width = arguments.width});
  });
}

std::size_t tree_lstm_num_tasks(const TreeLstmArguments& arguments) { return num_tasks(arguments.state); }

void tree_lstm_run_task(const TreeLstmArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const StateRows& state = arguments.state;
  const std::size_t width = arguments.width;
  std::vector<const float*> states, forgets;  // of the inputs
  run_nodes(state, task, [&](std::size_t node) {
    states.clear();
    forgets.clear();
    TreeNode work{.gates = arguments.gates,
                  .new_state = state.written(node) + arguments.c_offset,
                  .kept_h = state.written(node) + arguments.h_offset,
                  .h = arguments.h + node * width,
                  .width = width};
    switch (arguments.kind) {
      case TreeNodeKind::kLeaf: work.gates += node * 2 * width; return kernels.tree_leaf(work);
      case TreeNodeKind::kBinary:
        work.gates += node * 5 * width;
        for (std::size_t i = 0; i < 2; ++i) states.push_back(state.input(node, i) + arguments.c_offset);
        work.states = states.data();
        return kernels.tree_binary(work);
      case TreeNodeKind::kChildSum:
        work.gates += node * 3 * width;
        work.input_gates = arguments.input_gates + node * arguments.input_stride;
        work.num_inputs = state.nodes[node].num_inputs;
        for (std::size_t i = 0; i < work.num_inputs; ++i) {
          states.push_back(state.input(node, i) + arguments.c_offset);
          forgets.push_back(state.input(node, i) + arguments.forget_offset);
        }
        work.states = states.data();
        work.forgets = forgets.data();
        return kernels.tree_child_sum(work);
    }
  });
}

std::size_t attend_states_num_tasks(const AttendStatesArguments& arguments) {
  return arguments.state.nodes.size();
}

void attend_states_run_task(const AttendStatesArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const StateRows& state = arguments.state;
  const std::size_t num_bytes = arguments.width * sizeof(float);
  float* context = arguments.context + task * 2 * arguments.width;
  std::memset(context, 0, num_bytes);
  std::memcpy(context + arguments.width, arguments.h + task * arguments.width, num_bytes);
  const std::size_t num_inputs = state.nodes[task].num_inputs;
  if (num_inputs < 2) return;
  std::vector<float> scores(num_inputs - 1);
  const float* query = arguments.query + task * arguments.width;
  for (std::size_t i = 1; i < num_inputs; ++i)
    scores[i - 1] = kernels.dot(query, state.input(task, i) + arguments.key_offset, arguments.width);
  add_values(kernels, state, task, arguments.value_offset, scores, context, arguments.width);
}

std::size_t additive_attention_num_tasks(const AdditiveAttentionArguments& arguments) {
  return arguments.state.nodes.size();
}

void additive_attention_run_task(const AdditiveAttentionArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const StateRows& state = arguments.state;
  const std::size_t x_width = arguments.x_width, width = arguments.width;
  float* x = arguments.x_and_context + task * (x_width + width);
  float* context = x + x_width;
  std::memcpy(x, arguments.x + task * x_width, x_width * sizeof(float));
  std::memset(context, 0, width * sizeof(float));
  const std::size_t num_inputs = state.nodes[task].num_inputs;
  if (num_inputs < 2) return;
  std::vector<float> scores(num_inputs - 1);
  const float* query = arguments.query + task * width;
  for (std::size_t i = 1; i < num_inputs; ++i)
    scores[i - 1] =
        kernels.additive_score(query, state.input(task, i) + arguments.key_offset, arguments.weight, width);
  add_values(kernels, state, task, arguments.value_offset, scores, context, width);
}

}  // namespace troupe
