// SPDX-License-Identifier: Apache-2.0
// RotaryAppendKv (gpu/operators/rotary_append_kv.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/operators/rotary_table.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {

struct RotaryAppendKvArguments {
  float* qkv = nullptr;  // [tokens, (num_heads + 2 num_kv_heads) * head_dim]; queries
                         // are rotated in place, keys and values are only read
  std::size_t qkv_stride = 0;
  std::span<const TokenPlace> places;  // one a token
  std::size_t num_heads = 0;
  const RotaryTable* table = nullptr;  // null: nothing is rotated
  void* kv_pool = nullptr;
  KvLayout layout;
  std::size_t layer = 0;
  Isa isa = best_isa();
};

// A task is a few tokens. No two tokens of a batch share a place.
std::size_t rotary_append_kv_num_tasks(const RotaryAppendKvArguments& arguments);
void rotary_append_kv_run_task(const RotaryAppendKvArguments& arguments, std::size_t task);

}  // namespace troupe
