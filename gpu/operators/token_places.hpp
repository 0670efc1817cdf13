// SPDX-License-Identifier: Apache-2.0
// Places of a batch's tokens: position in the sequence, and KV page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe {

// A token's position in its sequence, and the page that holds its key and value
// (at position % 32). Filled once a batch, used by every layer.
struct TokenPlace {
  std::uint32_t position = 0;  // < RotaryTable::max_positions()
  PageId page = 0;
};
void place_tokens(std::span<const SequenceSlice> slices, std::span<const PageId> page_table,
                  std::vector<TokenPlace>& places);

}  // namespace troupe
