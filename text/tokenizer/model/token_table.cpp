// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/token_table.hpp"

#include <bit>
#include <functional>

namespace troupe {
namespace {

std::uint32_t hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
}

}  // namespace

TokenTable::TokenTable(std::size_t max_entries) : slots_(std::bit_ceil(2 * max_entries + 2)) {}

bool TokenTable::add(std::string_view text, TokenId token) {
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.token >= 0) return false;
  slot = {hash, token, text_.size(), static_cast<std::uint32_t>(text.size())};
  text_ += text;
  return true;
}

std::optional<TokenId> TokenTable::find(std::string_view text) const {
  const Slot& slot = slots_[slot_of(text, hash_of(text))];
  if (slot.token < 0) return std::nullopt;
  return slot.token;
}

std::size_t TokenTable::slot_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.token < 0) return i;
    if (slot.hash == hash && std::string_view(text_).substr(slot.begin, slot.num_bytes) == text) {
      return i;
    }
  }
}

}  // namespace troupe
