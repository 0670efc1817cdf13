// SPDX-License-Identifier: Apache-2.0
// The pool of rows of state on CPU cores, as the operators of gpu/operators/cells/ see it
// during a batch; GatherState and KeepState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/operators/cells/node_rows.hpp"

namespace troupe {

struct StateRows {
  float* rows = nullptr;  // [num_rows, width]
  std::size_t width = 0;
  std::span<const NodeRows> nodes;        // one a token of the batch
  std::span<const std::uint32_t> inputs;  // rows that nodes read
  const float* zeros = nullptr;           // [width], for inputs that a node lacks

  float* written(std::size_t node) const { return rows + nodes[node].row * width; }
  const float* input(std::size_t node, std::size_t index) const {
    if (index >= nodes[node].num_inputs) return zeros;
    return rows + inputs[nodes[node].first_input + index] * width;
  }
};

struct GatherStateArguments {
  StateRows state;
  std::size_t offset = 0;
  std::size_t width = 0;
  std::size_t first_input = 0;
  std::size_t num_inputs = 1;
  bool sums = false;
  float* gathered = nullptr;  // [nodes, num_inputs * width], or [nodes, width] of sums
  Isa isa = best_isa();
};
// A task is a few nodes.
std::size_t gather_state_num_tasks(const GatherStateArguments& arguments);
void gather_state_run_task(const GatherStateArguments& arguments, std::size_t task);

struct KeepStateArguments {
  StateRows state;
  std::size_t offset = 0;
  std::size_t width = 0;
  const float* x = nullptr;  // [nodes, width]
};
std::size_t keep_state_num_tasks(const KeepStateArguments& arguments);
void keep_state_run_task(const KeepStateArguments& arguments, std::size_t task);

}  // namespace troupe
