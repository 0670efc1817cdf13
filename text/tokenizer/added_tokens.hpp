// SPDX-License-Identifier: Apache-2.0
// Finds the tokens that are matched in the text itself, before it is cut into
// words: special tokens and others a model's makers have added.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

struct AddedToken {
  TokenId token = 0;
  std::string content;
  bool is_single_word = false;  // not next to letters or digits
  bool strips_left = false;     // takes the white space before it
  bool strips_right = false;    // … behind it
  bool is_normalized = false;   // matched in the normalized text
  bool is_special = false;

  // True if only trusted text may contain it: special tokens, and those spelled
  // <|…|>, which some models' files forget to mark (DeepSeek's role tokens).
  bool needs_trust() const;
};

struct AddedTokenMatch {
  TextRange range;
  TokenId token = 0;
};

// Leftmost match wins, then the longest. Immutable after construction.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool is_empty() const { return tokens_.empty(); }
  // The first match at `from` or later. Tokens that need trust count only where
  // all their bytes lie in one of `trusted` (sorted).
  std::optional<AddedTokenMatch> find(std::string_view text, std::size_t from,
                                      std::span<const TextRange> trusted) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    std::int32_t token = -1;  // index into tokens_
  };

  void add(std::size_t index);
  std::optional<std::uint32_t> child(std::uint32_t node, char byte) const;
  const AddedToken* longest_at(std::string_view text, std::size_t begin,
                               std::span<const TextRange> trusted) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::bitset<256> first_bytes_;
};

}  // namespace troupe
