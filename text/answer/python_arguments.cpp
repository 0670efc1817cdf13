// SPDX-License-Identifier: Apache-2.0
#include "text/answer/python_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "text/answer/json_scanner.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '+'; }

// Digits of an escape, 0 for one of a single character.
std::size_t num_escape_digits(char kind) { return kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0; }

std::string json_text_of(std::string_view text) {
  std::string out;
  append_json_inside(out, text);
  return out;
}

// escape: what follows the backslash, whole. Python keeps the backslash of those that it doesn't know.
std::string unescaped(const std::string& escape) {
  if (num_escape_digits(escape.front()) > 0) {
    std::uint32_t code_point = 0;
    const char* end = escape.data() + escape.size();
    const bool is_number = std::from_chars(escape.data() + 1, end, code_point, 16).ptr == end;
    // Halves of a pair are left for whoever reads the JSON.
    if (is_number && code_point >= 0xD800 && code_point < 0xE000)
      return "\\u" + escape.substr(escape.size() - 4);
    if (!is_number || code_point > 0x10FFFF) return json_text_of("\\" + escape);
    std::string text;
    append_utf8(text, code_point);
    return json_text_of(text);
  }
  constexpr std::string_view kKinds = "abfnrtv0'\"\\/", kMeanings("\a\b\f\n\r\t\v\0'\"\\/", 12);
  const auto known = kKinds.find(escape.front());
  if (known != std::string_view::npos) return json_text_of(kMeanings.substr(known, 1));
  return escape == "\n" ? "" : json_text_of("\\" + escape);
}

std::string json_word(const std::string& word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return nlohmann::json::accept(word) ? word : nlohmann::json(word).dump();
}

}  // namespace

bool is_python_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::size_t PythonArguments::take(std::string_view text, std::string& arguments) {
  std::size_t num_taken = 0;
  while (num_taken < text.size() && state_ == State::kOpen) {
    if (!take_byte(text[num_taken], arguments)) {
      state_ = State::kBroken;
      break;
    }
    ++num_taken;
  }
  return num_taken;
}

// False: the byte can't stand here.
bool PythonArguments::take_byte(char byte, std::string& out) {
  if (place_ == Place::kBegin) {
    out += '{';
    place_ = Place::kKey;
  }
  switch (place_) {
    case Place::kBegin: break;
    case Place::kKey: return take_in_key(byte, out);
    case Place::kValue: return take_in_value(byte, out);
    case Place::kText: take_in_text(byte, out); break;
    case Place::kEscape: take_escape(byte, out); break;
  }
  return true;
}

bool PythonArguments::take_in_key(char byte, std::string& out) {
  if (is_letter(byte) || is_digit(byte)) {
    word_ += byte;
    return true;
  }
  if (is_json_space(byte)) return true;
  if (byte == ')' && word_.empty()) return close(byte, out);
  if (byte != '=' || word_.empty()) return false;
  if (!begin_value(out)) return false;
  out += '"' + word_ + "\": ";
  word_.clear();
  place_ = Place::kValue;
  return true;
}

bool PythonArguments::take_in_value(char byte, std::string& out) {
  if (is_word(byte)) {
    word_ += byte;
    return true;
  }
  if (!end_word(out)) return false;
  switch (byte) {
    case '"':
    case '\'':
      if (!begin_value(out)) return false;
      out += '"';
      quote_ = byte;
      place_ = Place::kText;
      return true;
    case '[':
    case '(':
    case '{':
      if (!begin_value(out)) return false;
      out += byte == '{' ? '{' : '[';
      closers_ += byte == '{' ? '}' : byte == '[' ? ']' : ')';
      return true;
    case ']':
    case ')':
    case '}': return close(byte, out);
    case ',':
      needs_comma_ = true;
      is_behind_value_ = false;
      if (closers_.empty()) place_ = Place::kKey;
      return true;
    case ':':
      out += ": ";
      is_behind_value_ = false;
      return !closers_.empty() && closers_.back() == '}';
    default: return is_json_space(byte);
  }
}

void PythonArguments::take_in_text(char byte, std::string& out) {
  if (byte == '\\') {
    place_ = Place::kEscape;
  } else if (byte == quote_) {
    out += '"';
    is_behind_value_ = true;
    place_ = Place::kValue;
  } else {
    append_json_inside(out, std::string_view(&byte, 1));
  }
}

void PythonArguments::take_escape(char byte, std::string& out) {
  word_ += byte;
  if (word_.size() <= num_escape_digits(word_.front())) return;
  out += unescaped(word_);
  word_.clear();
  place_ = Place::kText;
}

bool PythonArguments::close(char byte, std::string& out) {
  needs_comma_ = false;
  if (closers_.empty()) {
    if (byte != ')') return false;
    out += '}';
    state_ = State::kDone;
    return true;
  }
  if (closers_.back() != byte) return false;
  closers_.pop_back();
  out += byte == '}' ? '}' : ']';
  is_behind_value_ = true;
  return true;
}

// False: another value stands in front, without a comma.
bool PythonArguments::begin_value(std::string& out) {
  if (is_behind_value_) return false;
  if (needs_comma_) out += ", ";
  needs_comma_ = false;
  return true;
}

bool PythonArguments::end_word(std::string& out) {
  if (word_.empty()) return true;
  if (!begin_value(out)) return false;
  out += json_word(word_);
  word_.clear();
  is_behind_value_ = true;
  return true;
}

}  // namespace troupe
