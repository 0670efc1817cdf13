// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/cells/state_rows.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kNodesOfTask = 16;

std::size_t num_tasks(const StateRows& state) {
  return (state.nodes.size() + kNodesOfTask - 1) / kNodesOfTask;
}

void copy_floats(float* to, const float* from, std::size_t count) {
  std::memcpy(to, from, count * sizeof(float));
}

void gather(const GatherStateArguments& arguments, std::size_t node) {
  const StateRows& state = arguments.state;
  if (!arguments.sums) {
    float* to = arguments.gathered + node * arguments.num_inputs * arguments.width;
    for (std::size_t i = 0; i < arguments.num_inputs; ++i, to += arguments.width)
      copy_floats(to, state.input(node, arguments.first_input + i) + arguments.offset, arguments.width);
    return;
  }
  float* sum = arguments.gathered + node * arguments.width;
  copy_floats(sum, state.input(node, 0) + arguments.offset, arguments.width);
  for (std::size_t i = 1; i < state.nodes[node].num_inputs; ++i)
    kernel_table(arguments.isa).add(sum, state.input(node, i) + arguments.offset, sum, arguments.width);
}

}  // namespace

std::size_t gather_state_num_tasks(const GatherStateArguments& arguments) {
  return num_tasks(arguments.state);
}

void gather_state_run_task(const GatherStateArguments& arguments, std::size_t task) {
  const std::size_t end = std::min(arguments.state.nodes.size(), (task + 1) * kNodesOfTask);
  for (std::size_t node = task * kNodesOfTask; node < end; ++node) gather(arguments, node);
}

std::size_t keep_state_num_tasks(const KeepStateArguments& arguments) { return num_tasks(arguments.state); }

void keep_state_run_task(const KeepStateArguments& arguments, std::size_t task) {
  const std::size_t end = std::min(arguments.state.nodes.size(), (task + 1) * kNodesOfTask);
  for (std::size_t node = task * kNodesOfTask; node < end; ++node)
    copy_floats(arguments.state.written(node) + arguments.offset, arguments.x + node * arguments.width,
                arguments.width);
}

}  // namespace troupe
