// SPDX-License-Identifier: Apache-2.0
// Which experts a token goes to, with which shares, and where its rows lie once those of an
// expert are beside each other; and the way of its rows there and back. A token's experts and shares
// depend on its own logits alone; only the places of its rows depend on the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct RouteExpertsArguments {
  const float* logits = nullptr;  // [num_tokens, num_experts]
  std::size_t num_tokens = 0;
  std::size_t num_experts = 0;
  std::size_t num_chosen = 0;      // of a token, <= num_experts
  bool normalizes = true;          // a token's shares sum to 1: softmax over those chosen; else over all
  float* shares = nullptr;         // [num_tokens, num_chosen]
  std::int32_t* places = nullptr;  // [num_tokens, num_chosen]
  std::int32_t* bounds = nullptr;  // [num_experts + 1]
  Isa isa = best_isa();
};

// A task is a few tokens. It writes shares and, in place of places, the experts: those of the highest
// logits, ties to the lower index, in ascending order.
std::size_t route_experts_num_tasks(const RouteExpertsArguments& arguments);
void route_experts_run_task(const RouteExpertsArguments& arguments, std::size_t task);

// Once all tasks are done: sorts the choices by expert, an expert's by token. A choice's expert becomes its
// place in that order, and those of expert e have the places [bounds[e], bounds[e + 1]).
void place_choices(const RouteExpertsArguments& arguments);

// A token's row is copied to the place of each choice.
struct GroupRowsArguments {
  const std::byte* x = nullptr;  // [num_tokens], rows of row_bytes
  std::size_t row_bytes = 0;
  const std::int32_t* places = nullptr;  // [num_tokens, num_chosen], each once
  std::size_t num_tokens = 0;
  std::size_t num_chosen = 0;
  std::byte* grouped = nullptr;  // [num_tokens * num_chosen], rows of row_bytes
};

// A task is a few tokens.
std::size_t group_rows_num_tasks(const GroupRowsArguments& arguments);
void group_rows_run_task(const GroupRowsArguments& arguments, std::size_t task);

// The rows that come out are summed by shares, in the order of the experts, so that a sum depends on its
// token alone.
struct CombineExpertsArguments {
  const float* grouped = nullptr;        // [num_tokens * num_chosen, width]
  const std::int32_t* places = nullptr;  // [num_tokens, num_chosen]
  const float* shares = nullptr;         // [num_tokens, num_chosen]
  std::size_t num_tokens = 0;
  std::size_t num_chosen = 0;  // >= 1
  std::size_t width = 0;
  float* sums = nullptr;  // [num_tokens, width]
};

std::size_t combine_experts_num_tasks(const CombineExpertsArguments& arguments);
void combine_experts_run_task(const CombineExpertsArguments& arguments, std::size_t task);

}  // namespace troupe
