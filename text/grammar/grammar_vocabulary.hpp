// SPDX-License-Identifier: Apache-2.0
// The tokens of a model as grammars see them: a trie of their bytes, in which tokens with a common
// beginning are tried together. Tokens of characters that a JSON string holds as they are, most of a
// vocabulary, have masks made in advance: inside a string only the rest is walked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/token_id.hpp"

namespace troupe {

// A tree of bytes, depth first.
struct ByteTrieNode {
  std::uint32_t skip = 0;   // the first node that is not below this one
  TokenId token = -1;       // that ends here; -1: none
  std::uint16_t depth = 0;  // bytes up to and with this one, at least 1
  std::uint8_t byte = 0;
};

// Immutable: may be read from any thread.
class GrammarVocabulary {
 public:
  // Longer tokens than these are walked.
  static constexpr std::size_t kMaxPlainCharacters = 48;

  // token_bytes: [vocabulary size], empty for special tokens and ids without an entry; less than 65,536
  // bytes each. Bytes of end tokens don't count. Throws std::invalid_argument.
  GrammarVocabulary(const std::vector<std::string>& token_bytes, std::vector<TokenId> end_tokens);

  std::size_t size() const { return offsets_.size() - 1; }
  std::size_t num_mask_words() const { return (size() + 31) / 32; }
  bool has(TokenId token) const { return token >= 0 && static_cast<std::size_t>(token) < size(); }
  std::string_view bytes(TokenId token) const;
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  std::size_t max_token_bytes() const { return max_token_bytes_; }

  std::span<const ByteTrieNode> tokens() const { return tokens_; }
  // Without those in plain_tokens().
  std::span<const ByteTrieNode> tokens_beside_plain() const { return beside_plain_; }
  // Mask of the tokens of 1 to num_characters plain characters, at most kMaxPlainCharacters.
  std::span<const std::uint32_t> plain_tokens(std::size_t num_characters) const;
  // (a, b): b is spelled as a, which is in the tries.
  std::span<const std::pair<TokenId, TokenId>> same_spelling() const { return same_spelling_; }

 private:
  std::vector<ByteTrieNode> trie_of(std::span<const TokenId> sorted) const;
  void add_plain_masks(std::span<const std::size_t> num_characters);

  std::string bytes_;
  std::vector<std::size_t> offsets_;  // [size + 1] into bytes_
  std::size_t max_token_bytes_ = 0;
  std::vector<TokenId> end_tokens_;
  std::vector<ByteTrieNode> tokens_;
  std::vector<ByteTrieNode> beside_plain_;
  std::vector<std::vector<std::uint32_t>> plain_masks_;  // [kMaxPlainCharacters + 1][num_mask_words]
  std::vector<std::pair<TokenId, TokenId>> same_spelling_;
};

}  // namespace troupe
