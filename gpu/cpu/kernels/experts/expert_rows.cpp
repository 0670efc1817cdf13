// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/experts/expert_rows.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {
constexpr std::size_t kTokensOfTask = 8;
std::size_t num_tasks_of(std::size_t tokens) { return (tokens + kTokensOfTask - 1) / kTokensOfTask; }
}  // namespace

std::size_t group_rows_num_tasks(const GroupRowsArguments& arguments) {
  return num_tasks_of(arguments.num_tokens);
}

void group_rows_run_task(const GroupRowsArguments& arguments, std::size_t task) {
  const std::size_t last = std::min(arguments.num_tokens, (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
    for (std::size_t i = 0; i < arguments.num_chosen; ++i) {
      const auto place = static_cast<std::size_t>(arguments.places[token * arguments.num_chosen + i]);
      std::memcpy(arguments.grouped + place * arguments.row_bytes, arguments.x + token * arguments.row_bytes,
                  arguments.row_bytes);
    }
  }
}

std::size_t combine_experts_num_tasks(const CombineExpertsArguments& arguments) {
  return num_tasks_of(arguments.num_tokens);
}

void combine_experts_run_task(const CombineExpertsArguments& arguments, std::size_t task) {
  const std::size_t last = std::min(arguments.num_tokens, (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
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
