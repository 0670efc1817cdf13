// SPDX-License-Identifier: Apache-2.0
// Strings and token ids, both ways, without an allocation for each entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.hpp"

namespace troupe {

// Hash table with open addressing over one buffer of all strings. Filled
// first, then read from any thread.
class TokenTable {
 public:
  explicit TokenTable(std::size_t max_entries);

  // False, and nothing changed, where the text is there already.
  bool add(std::string_view text, TokenId token);
  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    TokenId token = -1;  // -1: free
    std::size_t begin = 0;
    std::uint32_t num_bytes = 0;
  };

  // The slot that holds `text`, or the free one where it belongs.
  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::string text_;
};

}  // namespace troupe
