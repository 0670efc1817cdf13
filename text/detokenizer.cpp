// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, std::vector<std::string> markers)
    : tokenizer_(&tokenizer),
      markers_(std::move(markers)),
      num_spaces_to_strip_(tokenizer.num_stripped_leading_spaces()) {}

std::string StreamingDetokenizer::push(TokenId token) {
  std::string_view bytes = bytes_of(token);
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

std::string_view StreamingDetokenizer::bytes_of(TokenId token) const {
  if (markers_.empty() || !tokenizer_->is_special(token)) return tokenizer_->token_bytes(token);
  const auto content = tokenizer_->token_content(token);
  const bool is_marked = std::any_of(markers_.begin(), markers_.end(), [&](const auto& marker) {
    return marker.find(content) != std::string::npos;
  });
  return is_marked ? content : tokenizer_->token_bytes(token);
}

}  // namespace troupe
