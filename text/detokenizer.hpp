// SPDX-License-Identifier: Apache-2.0
// Tokens to text while they are produced. A token may end in the middle of a
// character; such bytes wait for the rest, so every piece is valid UTF-8.
#pragma once

#include <cstddef>
#include <string>

#include "text/token_id.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe {

// The pieces joined equal Tokenizer::decode of all tokens. One thread.
class StreamingDetokenizer {
 public:
  // The tokenizer must outlive this.
  explicit StreamingDetokenizer(const Tokenizer& tokenizer);

  // The text that became certain with this token, often empty.
  [[nodiscard]] std::string push(TokenId token);
  // What is left: U+FFFD for a character that was never completed.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::size_t num_spaces_to_strip_;
  Utf8Assembler assembler_;
};

}  // namespace troupe
