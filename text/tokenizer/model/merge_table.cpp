// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/merge_table.hpp"

#include <bit>

namespace troupe {
namespace {

std::uint64_t pair_of(TokenId left, TokenId right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t max_entries) : slots_(std::bit_ceil(2 * max_entries + 2)) {
  results_.reserve(max_entries);
}

void MergeTable::add(TokenId left, TokenId right, TokenId result) {
  const std::uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, static_cast<Rank>(results_.size())};
  results_.push_back(result);
}

MergeTable::Rank MergeTable::rank(TokenId left, TokenId right) const {
  return slots_[slot_of(pair_of(left, right))].rank;
}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  // Fibonacci hashing: ids are small and dense, their product is not.
  std::size_t i = ((pair * 0x9E3779B97F4A7C15u) >> 20) & mask;
  while (slots_[i].rank != kNever && slots_[i].pair != pair) i = (i + 1) & mask;
  return i;
}

}  // namespace troupe
