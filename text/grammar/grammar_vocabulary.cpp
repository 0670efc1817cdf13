// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_vocabulary.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "text/grammar/token_mask.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxTokenBytes = std::numeric_limits<std::uint16_t>::max();

// 0: not all of the text is plain characters, or there are too many.
std::size_t num_plain_characters(std::string_view text) {
  std::size_t num_characters = 0;
  while (!text.empty()) {
    const Utf8Character character = next_utf8_character(text);
    if (character.kind != Utf8Character::Kind::kValid) return 0;
    if (character.code_point < 0x20 || character.code_point == U'"' || character.code_point == U'\\')
      return 0;
    text.remove_prefix(character.num_bytes);
    ++num_characters;
  }
  return num_characters <= GrammarVocabulary::kMaxPlainCharacters ? num_characters : 0;
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(const std::vector<std::string>& token_bytes,
                                     std::vector<TokenId> end_tokens)
    : offsets_{0}, end_tokens_(std::move(end_tokens)) {
  std::sort(end_tokens_.begin(), end_tokens_.end());
  for (std::size_t i = 0; i < token_bytes.size(); ++i) {
    if (token_bytes[i].size() > kMaxTokenBytes)
      throw std::invalid_argument("token " + std::to_string(i) + " has " +
                                  std::to_string(token_bytes[i].size()) + " bytes");
    if (!is_end(static_cast<TokenId>(i))) bytes_ += token_bytes[i];
    max_token_bytes_ = std::max(max_token_bytes_, token_bytes[i].size());
    offsets_.push_back(bytes_.size());
  }
  for (const TokenId token : end_tokens_)
    if (!has(token))
      throw std::invalid_argument("end token " + std::to_string(token) + " is not in the vocabulary");

  std::vector<TokenId> sorted;
  for (std::size_t i = 0; i < size(); ++i)
    if (!bytes(static_cast<TokenId>(i)).empty()) sorted.push_back(static_cast<TokenId>(i));
  std::stable_sort(sorted.begin(), sorted.end(), [&](TokenId a, TokenId b) { return bytes(a) < bytes(b); });
  std::vector<TokenId> distinct;
  for (const TokenId token : sorted) {
    if (!distinct.empty() && bytes(distinct.back()) == bytes(token))
      same_spelling_.emplace_back(distinct.back(), token);
    else
      distinct.push_back(token);
  }
  tokens_ = trie_of(distinct);

  std::vector<std::size_t> num_characters(size(), 0);
  for (const TokenId token : distinct)
    num_characters[static_cast<std::size_t>(token)] = num_plain_characters(bytes(token));
  add_plain_masks(num_characters);
  std::erase_if(distinct, [&](TokenId token) { return num_characters[static_cast<std::size_t>(token)] > 0; });
  beside_plain_ = trie_of(distinct);
}

std::string_view GrammarVocabulary::bytes(TokenId token) const {
  if (!has(token)) return {};
  const auto i = static_cast<std::size_t>(token);
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

bool GrammarVocabulary::is_end(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

std::span<const std::uint32_t> GrammarVocabulary::plain_tokens(std::size_t num_characters) const {
  return plain_masks_[std::min(num_characters, kMaxPlainCharacters)];
}

// sorted: by their bytes, which are distinct and not empty.
std::vector<ByteTrieNode> GrammarVocabulary::trie_of(std::span<const TokenId> sorted) const {
  std::vector<ByteTrieNode> nodes;
  std::vector<std::size_t> path;  // nodes of the token before
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes[path.back()].skip = static_cast<std::uint32_t>(nodes.size());
  };
  std::string_view before;
  for (const TokenId token : sorted) {
    const std::string_view text = bytes(token);
    const auto split = std::mismatch(before.begin(), before.end(), text.begin(), text.end()).second;
    leave(static_cast<std::size_t>(split - text.begin()));
    while (path.size() < text.size()) {
      const auto byte = static_cast<std::uint8_t>(text[path.size()]);
      path.push_back(nodes.size());
      nodes.push_back({.depth = static_cast<std::uint16_t>(path.size()), .byte = byte});
    }
    nodes.back().token = token;
    before = text;
  }
  leave(0);
  return nodes;
}

// num_characters: [vocabulary size], 0 for what is not plain.
void GrammarVocabulary::add_plain_masks(std::span<const std::size_t> num_characters) {
  plain_masks_.assign(kMaxPlainCharacters + 1, std::vector<std::uint32_t>(num_mask_words(), 0));
  for (std::size_t i = 0; i < num_characters.size(); ++i)
    if (num_characters[i] > 0) set_bit(plain_masks_[num_characters[i]], static_cast<TokenId>(i));
  for (std::size_t length = 1; length < plain_masks_.size(); ++length)
    for (std::size_t word = 0; word < num_mask_words(); ++word)
      plain_masks_[length][word] |= plain_masks_[length - 1][word];
}

}  // namespace troupe
