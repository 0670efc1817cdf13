// SPDX-License-Identifier: Apache-2.0
// The token whose embedding a row gets: of the batch's input, or the last one of a slot, which the host may
// not know yet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/embed.hpp"

namespace troupe::cuda {

// `Arguments` has token_ids, slots and tokens_of_slots as EmbedArguments.
template <typename Arguments>
__device__ __forceinline__ std::int32_t input_token(const Arguments& a, std::size_t row) {
  if (a.slots != nullptr && a.slots[row] != kNoSlot) return a.tokens_of_slots[a.slots[row]];
  return a.token_ids[row];
}

}  // namespace troupe::cuda
