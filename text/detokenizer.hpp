// SPDX-License-Identifier: Apache-2.0
// Tokens to text while they are produced. A token may end in the middle of a
// character; such bytes wait for the rest, so every piece is valid UTF-8.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/tokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe {

// Stands in front of a special token's text where one asks for it: no byte of UTF-8, so that no text that
// a model spells passes for a special token.
inline constexpr char kSpecialTokenMark = '\xFF';

// Without markers the pieces joined equal Tokenizer::decode of all tokens. One thread.
class StreamingDetokenizer {
 public:
  // The tokenizer must outlive this. Special tokens are dropped, except those that are
  // part of one of these markers; marks_specials: kSpecialTokenMark stands in front of each.
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, std::vector<std::string> markers = {},
                                bool marks_specials = false);

  // The text goes on behind that of these tokens, in which a space that only begins texts would have been.
  void follow(std::span<const TokenId> tokens);
  // The text that became certain with this token, often empty.
  [[nodiscard]] std::string push(TokenId token);
  // The rest: U+FFFD for a character that was never completed.
  [[nodiscard]] std::string finish();

 private:
  bool is_marker(TokenId token) const;
  std::string_view without_leading_spaces(std::string_view bytes);

  const Tokenizer* tokenizer_;
  std::vector<std::string> markers_;
  bool marks_specials_;
  std::size_t num_spaces_to_strip_;
  Utf8Assembler assembler_;
};

}  // namespace troupe
