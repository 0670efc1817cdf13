// SPDX-License-Identifier: Apache-2.0
#include "text/answer/json_scanner.hpp"

#include <array>

namespace troupe {

std::size_t JsonScanner::take(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (state_ == State::kDone) return i;
    take_byte(text[i]);
    if (state_ == State::kBroken) return i;
  }
  return text.size();
}

void JsonScanner::take_byte(char byte) {
  if (in_string_) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (byte == '\\') {
      is_escaped_ = true;
    } else if (byte == '"') {
      in_string_ = false;
      if (closers_.empty()) state_ = State::kDone;
    }
    return;
  }
  switch (byte) {
    case '"': in_string_ = true; return;
    case '{': closers_ += '}'; return;
    case '[': closers_ += ']'; return;
    case '}':
    case ']': return close(byte);
    default: break;
  }
  // Nothing but the names and numbers of JSON stands outside of strings.
  const bool is_scalar = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
                         byte == '+' || byte == '.' || byte == 'E' || byte == ',' || byte == ':';
  if (closers_.empty() || (!is_scalar && !is_json_space(byte))) state_ = State::kBroken;
}

void JsonScanner::close(char closer) {
  if (closers_.empty() || closers_.back() != closer) {
    state_ = State::kBroken;
    return;
  }
  closers_.pop_back();
  if (closers_.empty()) state_ = State::kDone;
}

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::size_t skip_json_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_json_space(text[at])) ++at;
  return at;
}

void append_json_inside(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

}  // namespace troupe
