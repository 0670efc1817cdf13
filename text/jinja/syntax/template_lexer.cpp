// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/syntax/template_lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "text/utf8.hpp"

namespace troupe::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kSpaces = " \t\n\r\f\v";
constexpr std::array<std::string_view, 6> kLongOperators = {"==", "!=", "<=", ">=", "//", "**"};
constexpr std::string_view kOperators = "+-*/%~<>=()[]{},.:|";

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// One kind of line end, and none at the very end: as Jinja reads files.
std::string with_plain_line_ends(const std::string& source) {
  std::string plain;
  plain.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      plain += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      plain += '\n';
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) lex_text();
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void skip(std::size_t count) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + count, '\n'));
    rest_.remove_prefix(count);
  }

  // Up to the next tag and that tag.
  void lex_text() {
    std::size_t begin = 0;
    while (true) {
      begin = rest_.find('{', begin);
      if (begin == std::string_view::npos || begin + 1 >= rest_.size()) {
        add_text(rest_);
        return skip(rest_.size());
      }
      const char next = rest_[begin + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++begin;
    }
    const char kind = rest_[begin + 1];
    const char sign = begin + 2 < rest_.size() ? rest_[begin + 2] : '\0';
    add_text(without_space_before_tag(rest_.substr(0, begin), kind, sign));
    skip(begin + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') {
      lex_comment();
    } else if (kind == '{') {
      lex_tag(Kind::kOutputBegin, Kind::kOutputEnd, "}}");
    } else if (!lex_raw()) {
      lex_tag(Kind::kStatementBegin, Kind::kStatementEnd, "%}");
    }
  }

  void add_text(std::string_view text) {
    if (!text.empty()) add(Kind::kText, std::string(text));
  }

  std::string_view without_space_before_tag(std::string_view text, char kind, char sign) const {
    if (sign == '-') {
      const std::size_t last = text.find_last_not_of(kSpaces);
      return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
    }
    if (sign == '+' || kind == '{') return text;
    // lstrip_blocks: a tag alone on its line begins at its beginning.
    const std::size_t line_begin = text.rfind('\n') + 1;
    const bool is_at_line_begin = line_begin > 0 || at_line_begin_;
    if (!is_at_line_begin || text.find_first_not_of(kSpaces, line_begin) != std::string_view::npos) {
      return text;
    }
    return text.substr(0, line_begin);
  }

  // What follows a tag: all space after "-", one line end after a statement
  // (trim_blocks).
  void skip_space_after_tag(bool strips, bool trims) {
    std::size_t count = 0;
    if (strips) {
      count = std::min(rest_.find_first_not_of(kSpaces), rest_.size());
    } else if (trims && rest_.starts_with('\n')) {
      count = 1;
    }
    at_line_begin_ = count > 0 && rest_[count - 1] == '\n';
    skip(count);
  }

  void lex_comment() {
    const std::size_t end = rest_.find("#}");
    if (end == std::string_view::npos) fail_at_line(line_, "a comment is not closed");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    skip(end + 2);
    skip_space_after_tag(sign == '-', sign != '+');
  }

  // {% raw %} … {% endraw %}; false if this is another statement.
  bool lex_raw() {
    std::string_view look = rest_;
    const auto skip_spaces = [&] {
      look.remove_prefix(std::min(look.find_first_not_of(kSpaces), look.size()));
    };
    skip_spaces();
    if (!look.starts_with("raw")) return false;
    look.remove_prefix(3);
    skip_spaces();
    const bool strips = look.starts_with("-%}");
    if (!strips && !look.starts_with("%}")) return false;
    const int line = line_;
    skip(rest_.size() - look.size() + (strips ? 3 : 2));
    skip_space_after_tag(strips, false);
    for (std::size_t begin = rest_.find("{%"); begin != std::string_view::npos;
         begin = rest_.find("{%", begin + 2)) {
      look = rest_.substr(begin + 2);
      const char sign = look.empty() ? '\0' : look[0];
      if (sign == '-' || sign == '+') look.remove_prefix(1);
      skip_spaces();
      if (!look.starts_with("endraw")) continue;
      look.remove_prefix(6);
      skip_spaces();
      const bool strips_after = look.starts_with('-');
      if (strips_after) look.remove_prefix(1);
      if (!look.starts_with("%}")) continue;
      add_text(without_space_before_tag(rest_.substr(0, begin), '%', sign));
      skip(rest_.size() - look.size() + 2);
      skip_space_after_tag(strips_after, true);
      return true;
    }
    fail_at_line(line, "raw is not closed");
  }

  void lex_tag(Kind begin, Kind end, std::string_view closing) {
    add(begin, "");
    const int line = line_;
    std::string open;  // brackets
    while (true) {
      skip(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
      if (rest_.empty()) fail_at_line(line, "a tag is not closed");
      if (open.empty()) {
        const char sign = rest_[0];
        const bool has_sign = sign == '-' || sign == '+';
        if (rest_.substr(has_sign ? 1 : 0).starts_with(closing)) {
          add(end, "");
          skip(has_sign ? 3 : 2);
          return skip_space_after_tag(sign == '-', end == Kind::kStatementEnd && sign != '+');
        }
      }
      lex_token(open);
    }
  }

  void lex_token(std::string& open) {
    const char c = rest_[0];
    if (is_name_start(c)) {
      std::size_t end = 1;
      while (end < rest_.size() && (is_name_start(rest_[end]) || is_digit(rest_[end]))) ++end;
      add(Kind::kName, std::string(rest_.substr(0, end)));
      return skip(end);
    }
    if (is_digit(c)) return lex_number();
    if (c == '"' || c == '\'') return lex_string();
    lex_operator(open);
  }

  void lex_number() {
    std::size_t end = 0;
    bool is_float = false;
    const auto digits = [&] {
      while (end < rest_.size() && (is_digit(rest_[end]) || rest_[end] == '_')) ++end;
    };
    digits();
    if (end + 1 < rest_.size() && rest_[end] == '.' && is_digit(rest_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < rest_.size() && (rest_[exponent] == '+' || rest_[exponent] == '-')) ++exponent;
      if (exponent < rest_.size() && is_digit(rest_[exponent])) {
        is_float = true;
        end = exponent;
        digits();
      }
    }
    std::string text(rest_.substr(0, end));
    std::erase(text, '_');
    add(is_float ? Kind::kFloat : Kind::kInteger, std::move(text));
    skip(end);
  }

  void lex_string() {
    const char quote = rest_[0];
    std::string text;
    std::size_t i = 1;
    for (; i < rest_.size() && rest_[i] != quote; ++i) {
      if (rest_[i] != '\\') {
        text += rest_[i];
      } else if (++i < rest_.size()) {
        unescape(i, text);
      }
    }
    if (i >= rest_.size()) fail_at_line(line_, "a string is not closed");
    add(Kind::kString, std::move(text));
    skip(i + 1);
  }

  // The escape whose letter is at `i`; leaves `i` at its last character.
  void unescape(std::size_t& i, std::string& text) {
    const char c = rest_[i];
    switch (c) {
      case 'n': text += '\n'; return;
      case 't': text += '\t'; return;
      case 'r': text += '\r'; return;
      case 'b': text += '\b'; return;
      case 'f': text += '\f'; return;
      case 'v': text += '\v'; return;
      case 'a': text += '\a'; return;
      case '0': text += '\0'; return;
      case '\\':
      case '\'':
      case '"': text += c; return;
      case '\n': return;
      case 'x': return append_code_point(i, 2, text);
      case 'u': return append_code_point(i, 4, text);
      case 'U': return append_code_point(i, 8, text);
      default: text += '\\'; text += c;
    }
  }

  void append_code_point(std::size_t& i, std::size_t num_digits, std::string& text) {
    const std::string_view digits = rest_.substr(i + 1, num_digits);
    std::uint32_t code_point = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code_point, 16);
    const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
    if (digits.size() < num_digits || result.ptr != digits.data() + digits.size() || is_surrogate ||
        code_point > 0x10FFFF) {
      fail_at_line(line_, "a string has a malformed escape");
    }
    append_utf8(text, code_point);
    i += num_digits;
  }

  void lex_operator(std::string& open) {
    for (const std::string_view long_operator : kLongOperators) {
      if (rest_.starts_with(long_operator)) {
        add(Kind::kOperator, std::string(long_operator));
        return skip(2);
      }
    }
    const char c = rest_[0];
    if (kOperators.find(c) == std::string_view::npos) {
      fail_at_line(line_, std::string("unexpected character '") + c + "'");
    }
    if (c == '(' || c == '[' || c == '{') open += c;
    if (c == ')' || c == ']' || c == '}') {
      const char opening = c == ')' ? '(' : (c == ']' ? '[' : '{');
      if (!open.ends_with(opening)) fail_at_line(line_, std::string("unexpected '") + c + "'");
      open.pop_back();
    }
    add(Kind::kOperator, std::string(1, c));
    skip(1);
  }

  std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  int line_ = 1;
  bool at_line_begin_ = true;  // the last tag ended with a line end
};

}  // namespace

std::vector<Token> tokenize_template(const std::string& source) {
  return Lexer(with_plain_line_ends(source)).run();
}

void fail_at_line(int line, const std::string& reason) {
  throw std::runtime_error("line " + std::to_string(line) + ": " + reason);
}

}  // namespace troupe::jinja
