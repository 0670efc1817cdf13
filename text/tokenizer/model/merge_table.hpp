// SPDX-License-Identifier: Apache-2.0
// The merges of a byte-pair encoding: which two tokens become which one, and
// which pair goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/token_id.hpp"

namespace troupe {

// Hash table with open addressing. Filled first, then read from any thread.
class MergeTable {
 public:
  // The place of a merge in their order: lower ranks are merged first.
  using Rank = std::uint32_t;
  static constexpr Rank kNever = 0xFFFFFFFF;

  explicit MergeTable(std::size_t max_entries);

  // Gives the pair the next rank, also where it had one.
  void add(TokenId left, TokenId right, TokenId result);
  // kNever where the two are not merged.
  Rank rank(TokenId left, TokenId right) const;
  TokenId result(Rank rank) const { return results_[rank]; }

 private:
  struct Slot {
    std::uint64_t pair = 0;
    Rank rank = kNever;  // kNever: free
  };

  std::size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::vector<TokenId> results_;
};

}  // namespace troupe
