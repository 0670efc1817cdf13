// SPDX-License-Identifier: Apache-2.0
// Which experts a token goes to, with which shares, and where its rows lie once those of an
// expert are beside each other. A token's experts and shares depend on its own logits alone;
// only the places of its rows depend on the batch.
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

}  // namespace troupe
