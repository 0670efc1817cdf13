// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/experts/expert_routing.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTokensOfTask = 16;

// The indices of the highest logits, ascending; not-a-numbers win over nothing, so that there are always
// `count` of them.
void choose(const float* logits, std::size_t num_experts, std::size_t count, std::vector<bool>& is_chosen,
            std::int32_t* chosen) {
  is_chosen.assign(num_experts, false);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t best = num_experts;
    for (std::size_t expert = 0; expert < num_experts; ++expert) {
      if (!is_chosen[expert] && (best == num_experts || logits[expert] > logits[best])) best = expert;
    }
    is_chosen[best] = true;
  }
  for (std::size_t expert = 0; expert < num_experts; ++expert)
    if (is_chosen[expert]) *chosen++ = static_cast<std::int32_t>(expert);
}

constexpr std::size_t kTokensOfCopy = 8;
std::size_t copy_tasks_of(std::size_t tokens) { return (tokens + kTokensOfCopy - 1) / kTokensOfCopy; }

}  // namespace

std::size_t route_experts_num_tasks(const RouteExpertsArguments& arguments) {
  return (arguments.num_tokens + kTokensOfTask - 1) / kTokensOfTask;
}

void route_experts_run_task(const RouteExpertsArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t num_experts = arguments.num_experts, num_chosen = arguments.num_chosen;
  std::vector<bool> is_chosen;
  std::vector<float> weights(num_experts);
  const std::size_t last = std::min(arguments.num_tokens, (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
    const float* logits = arguments.logits + token * num_experts;
    std::int32_t* chosen = arguments.places + token * num_chosen;
    float* shares = arguments.shares + token * num_chosen;
    choose(logits, num_experts, num_chosen, is_chosen, chosen);
    const float highest = *std::max_element(logits, logits + num_experts);
    kernels.exponentiate(logits, highest, 1.0F, weights.data(), num_experts);
    float total = 0.0F;
    for (std::size_t expert = 0; expert < num_experts; ++expert)
      if (is_chosen[expert] || !arguments.normalizes) total += weights[expert];
    for (std::size_t i = 0; i < num_chosen; ++i)
      shares[i] = weights[static_cast<std::size_t>(chosen[i])] / total;
  }
}

void place_choices(const RouteExpertsArguments& arguments) {
  const std::size_t num_choices = arguments.num_tokens * arguments.num_chosen;
  std::int32_t* const bounds = arguments.bounds;
  std::fill_n(bounds, arguments.num_experts + 1, 0);
  for (std::size_t i = 0; i < num_choices; ++i) ++bounds[arguments.places[i] + 1];
  for (std::size_t expert = 0; expert < arguments.num_experts; ++expert) bounds[expert + 1] += bounds[expert];
  std::vector<std::int32_t> next(bounds, bounds + arguments.num_experts);
  for (std::size_t i = 0; i < num_choices; ++i)
    arguments.places[i] = next[static_cast<std::size_t>(arguments.places[i])]++;
}

std::size_t group_rows_num_tasks(const GroupRowsArguments& arguments) {
  return copy_tasks_of(arguments.num_tokens);
}

void group_rows_run_task(const GroupRowsArguments& arguments, std::size_t task) {
  const std::size_t last = std::min(arguments.num_tokens, (task + 1) * kTokensOfCopy);
  for (std::size_t token = task * kTokensOfCopy; token < last; ++token) {
    for (std::size_t i = 0; i < arguments.num_chosen; ++i) {
      const auto place = static_cast<std::size_t>(arguments.places[token * arguments.num_chosen + i]);
      std::memcpy(arguments.grouped + place * arguments.row_bytes, arguments.x + token * arguments.row_bytes,
                  arguments.row_bytes);
    }
  }
}

std::size_t combine_experts_num_tasks(const CombineExpertsArguments& arguments) {
  return copy_tasks_of(arguments.num_tokens);
}

void combine_experts_run_task(const CombineExpertsArguments& arguments, std::size_t task) {
  const std::size_t last = std::min(arguments.num_tokens, (task + 1) * kTokensOfCopy);
  for (std::size_t token = task * kTokensOfCopy; token < last; ++token) {
    float* sum = arguments.sums + token * arguments.width;
    std::fill_n(sum, arguments.width, 0.0F);
    for (std::size_t i = 0; i < arguments.num_chosen; ++i) {
      const std::size_t choice = token * arguments.num_chosen + i;
      const float share = arguments.shares[choice];
      const float* row =
          arguments.grouped + static_cast<std::size_t>(arguments.places[choice]) * arguments.width;
      for (std::size_t column = 0; column < arguments.width; ++column) sum[column] += share * row[column];
    }
  }
}

}  // namespace troupe
