// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, std::vector<std::string> markers,
                                           bool marks_specials)
    : tokenizer_(&tokenizer),
      markers_(std::move(markers)),
      marks_specials_(marks_specials),
      num_spaces_to_strip_(tokenizer.num_stripped_leading_spaces()) {}

void StreamingDetokenizer::follow(std::span<const TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size() && num_spaces_to_strip_ > 0; ++i)
    without_leading_spaces(tokenizer_->token_bytes(tokens[i]));
}

std::string StreamingDetokenizer::push(TokenId token) {
  const bool is_shown_special = is_marker(token);
  const std::string_view bytes = without_leading_spaces(is_shown_special ? tokenizer_->token_content(token)
                                                                         : tokenizer_->token_bytes(token));
  std::string text;
  if (is_shown_special && marks_specials_) {
    assembler_.finish(text);
    text += kSpecialTokenMark;
  }
  assembler_.push(bytes, text);
  return text;
}

std::string StreamingDetokenizer::finish() {
  std::string text;
  assembler_.finish(text);
  return text;
}

// All but those spaces that are still to be taken off.
std::string_view StreamingDetokenizer::without_leading_spaces(std::string_view bytes) {
  while (num_spaces_to_strip_ > 0 && !bytes.empty()) {
    if (bytes.front() != ' ') {
      num_spaces_to_strip_ = 0;
    } else {
      bytes.remove_prefix(1);
      --num_spaces_to_strip_;
    }
  }
  return bytes;
}

// A special token that is shown.
bool StreamingDetokenizer::is_marker(TokenId token) const {
  if (markers_.empty() || !tokenizer_->is_special(token)) return false;
  const auto content = tokenizer_->token_content(token);
  return std::any_of(markers_.begin(), markers_.end(),
                     [&](const auto& marker) { return marker.find(content) != std::string::npos; });
}

}  // namespace troupe
