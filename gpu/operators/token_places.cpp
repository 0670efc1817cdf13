// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/token_places.hpp"

#include "gpu/pages/kv_layout.hpp"

namespace troupe {

void place_tokens(std::span<const SequenceSlice> slices, std::span<const PageId> page_table,
                  std::vector<TokenPlace>& places) {
  places.clear();
  for (const auto& slice : slices) {
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i) {
      const std::uint32_t position = slice.context_length + i;
      places.push_back(
          {.position = position, .page = page_table[slice.first_page + position / kKvPageTokens]});
    }
  }
}

}  // namespace troupe
