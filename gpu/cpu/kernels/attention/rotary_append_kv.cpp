// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/rotary_append_kv.hpp"

#include <algorithm>
#include <cstddef>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTokensOfTask = 8;

}  // namespace

std::size_t rotary_append_kv_num_tasks(const RotaryAppendKvArguments& arguments) {
  return (arguments.places.size() + kTokensOfTask - 1) / kTokensOfTask;
}

void rotary_append_kv_run_task(const RotaryAppendKvArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.places.size(), (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
    const TokenPlace& place = arguments.places[token];
    kernels.rotate_and_append({
        .qkv = arguments.qkv + token * arguments.qkv_stride,
        .num_heads = arguments.num_heads,
        .cosines_sines = arguments.table != nullptr ? arguments.table->row(place.position) : nullptr,
        .rotary_dim = arguments.table != nullptr ? arguments.table->rotary_dim() : 0,
        .page = static_cast<std::byte*>(arguments.kv_pool) +
                kv_block_offset(arguments.layout, arguments.layer, place.page, 0),
        .slot = place.position % kKvPageTokens,
        .layout = arguments.layout,
    });
  }
}

}  // namespace troupe
