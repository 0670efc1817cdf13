// SPDX-License-Identifier: Apache-2.0
// The way of a token's row to its experts and back: copied to the place of each choice, and the rows that
// come out summed by shares, in the order of the experts, so that a sum depends on its token alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

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
