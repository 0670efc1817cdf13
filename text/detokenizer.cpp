// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.hpp"

#include <string_view>

namespace troupe {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), num_spaces_to_strip_(tokenizer.num_stripped_leading_spaces()) {}

std::string StreamingDetokenizer::push(TokenId token) {
  std::string_view bytes = tokenizer_->token_bytes(token);
  while (num_spaces_to_strip_ > 0 && !bytes.empty()) {
    if (bytes.front() != ' ') {
      num_spaces_to_strip_ = 0;
    } else {
      bytes.remove_prefix(1);
      --num_spaces_to_strip_;
    }
  }
  std::string text;
  assembler_.push(bytes, text);
  return text;
}

std::string StreamingDetokenizer::finish() {
  std::string text;
  assembler_.finish(text);
  return text;
}

}  // namespace troupe
