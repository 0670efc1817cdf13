// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/gbnf.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/character_set.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxGrammarBytes = 1 << 20;
constexpr int kMaxNesting = 100;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const FindToken& find_token) : text_(text), find_token_(find_token) {
    if (text.size() > kMaxGrammarBytes)
      throw GrammarError("a grammar of " + std::to_string(text.size()) + " bytes, expected at most " +
                         std::to_string(kMaxGrammarBytes));
    if (const std::size_t valid = valid_utf8_prefix(text); valid != text.size()) {
      at_ = valid;
      fail("a byte that is not UTF-8");
    }
  }

  Grammar parse() {
    for (skip_space(true); !is_end(); skip_space(true)) definition();
    for (const auto& [name, rule] : rules_)
      if (!rule.is_defined) throw GrammarError("rule '" + name + "' is used and not defined");
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw GrammarError("the grammar has no rule 'root'");
    return builder_.build(builder_.call(root->second.rule));
  }

 private:
  struct NamedRule {
    GrammarRule rule{};
    bool is_defined = false;
  };

  [[noreturn]] void fail(const std::string& reason) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw GrammarError("grammar, line " + std::to_string(line) + ": " + reason);
  }
  bool is_end() const { return at_ == text_.size(); }
  bool is_next(char c) const { return !is_end() && text_[at_] == c; }
  bool skip(std::string_view text) {
    if (!text_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void skip_space(bool over_lines) {
    for (; !is_end(); ++at_) {
      if (is_next('#')) at_ = std::min(text_.find('\n', at_), text_.size());
      if (is_end()) return;
      const char c = text_[at_];
      if (c != ' ' && c != '\t' && !(over_lines && (c == '\n' || c == '\r'))) return;
    }
  }
  // A rule goes on over lines inside parentheses, and after | or ::=.
  void skip_space_in_rule() { skip_space(nesting_ > 1); }

  std::string name() {
    const std::size_t begin = at_;
    while (!is_end() && is_name_character(text_[at_])) ++at_;
    if (at_ == begin) fail("expected a rule's name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  NamedRule& rule_of(const std::string& name) {
    const auto [known, is_new] = rules_.try_emplace(name);
    if (is_new) known->second.rule = builder_.declare_rule();
    return known->second;
  }

  void definition() {
    const std::string defined = name();
    skip_space(false);
    if (!skip("::=")) fail("expected '::=' after '" + defined + "'");
    NamedRule& rule = rule_of(defined);
    if (std::exchange(rule.is_defined, true)) fail("rule '" + defined + "' is defined twice");
    skip_space(true);
    builder_.define(rule.rule, choice());
    if (!is_end() && !is_next('\n') && !is_next('\r')) fail("expected the end of rule '" + defined + "'");
  }

  GrammarExpression choice() {
    if (++nesting_ > kMaxNesting) fail("groups nested deeper than " + std::to_string(kMaxNesting));
    std::vector<GrammarExpression> choices{sequence()};
    while (skip("|")) {
      skip_space(true);
      choices.push_back(sequence());
    }
    --nesting_;
    return builder_.any_of(std::move(choices));
  }

  GrammarExpression sequence() {
    std::vector<GrammarExpression> parts;
    while (begins_term()) {
      parts.push_back(repeated(term()));
      skip_space_in_rule();
    }
    return builder_.sequence(std::move(parts));
  }

  bool begins_term() const {
    if (is_end()) return false;
    const char c = text_[at_];
    return c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!' || is_name_character(c);
  }

  GrammarExpression term() {
    if (skip("\"")) return literal();
    if (skip("[")) return one_character(builder_, bracket());
    if (skip(".")) return one_character(builder_, CharacterSet::all());
    if (skip("<")) return token();
    if (is_next('!')) fail("'!<token>' is not supported");
    if (!skip("(")) return builder_.call(rule_of(name()).rule);
    skip_space(true);
    const GrammarExpression group = choice();
    if (!skip(")")) fail("expected ')'");
    return group;
  }

  GrammarExpression repeated(GrammarExpression part) {
    for (int num_repetitions = 0;; ++num_repetitions) {
      if (num_repetitions > kMaxNesting) fail("too many repetitions of one term");
      skip_space_in_rule();
      if (skip("*"))
        part = builder_.repeat(part, 0, kUnboundedCount);
      else if (skip("+"))
        part = builder_.repeat(part, 1, kUnboundedCount);
      else if (skip("?"))
        part = builder_.optional(part);
      else if (skip("{"))
        part = counted(part);
      else
        return part;
    }
  }

  GrammarExpression counted(GrammarExpression part) {
    const std::uint32_t min = number(GrammarBuilder::kMaxRepetitions);
    std::uint32_t max = min;
    skip_space(true);
    if (skip(",")) {
      skip_space(true);
      max = is_next('}') ? kUnboundedCount : number(GrammarBuilder::kMaxRepetitions);
      skip_space(true);
    }
    if (!skip("}")) fail("expected '}'");
    if (min > max) fail("a repetition whose least count is above its most");
    return builder_.repeat(part, min, max);
  }

  std::uint32_t number(std::uint32_t most) {
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; !is_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > most) fail("a number above " + std::to_string(most));
    }
    if (at_ == begin) fail("expected a number");
    return static_cast<std::uint32_t>(value);
  }

  GrammarExpression literal() {
    std::string bytes;
    while (!skip("\"")) {
      if (is_end() || is_next('\n')) fail("a literal without its closing quotation mark");
      append_utf8(bytes, character());
    }
    return builder_.text(bytes);
  }

  CharacterSet bracket() {
    const bool is_negated = skip("^");
    std::vector<CharacterRange> ranges;
    while (!skip("]")) {
      if (is_end() || is_next('\n')) fail("'[' without ']'");
      const char32_t first = character();
      char32_t last = first;
      if (is_next('-') && !text_.substr(at_).starts_with("-]")) {
        skip("-");
        last = character();
      }
      if (first > last) fail("a range whose first character is behind its last");
      ranges.push_back({first, last});
    }
    const CharacterSet set(std::move(ranges));
    return is_negated ? set.complement() : set;
  }

  char32_t character() {
    if (is_end()) fail("the grammar ends too early");
    if (skip("\\")) return escape();
    const Utf8Character next = next_utf8_character(text_.substr(at_));
    at_ += next.num_bytes;
    return next.code_point;
  }

  char32_t escape() {
    if (is_end()) fail("the grammar ends too early");
    switch (const char c = text_[at_++]) {
      case 'n': return U'\n';
      case 'r': return U'\r';
      case 't': return U'\t';
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<unsigned char>(c);
      default: fail("an unknown escape");
    }
  }

  char32_t hexadecimal(std::size_t num_digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < num_digits; ++i, ++at_) {
      constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
      const std::size_t digit = is_end() ? std::string_view::npos : kDigits.find(text_[at_]);
      if (digit == std::string_view::npos)
        fail("expected " + std::to_string(num_digits) + " hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit < 16 ? digit : digit - 6);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail("an escape that is no character");
    return value;
  }

  GrammarExpression token() {
    if (skip("[")) {
      const auto id = number(static_cast<std::uint32_t>(std::numeric_limits<TokenId>::max()));
      if (!skip("]>")) fail("expected ']>' after a token's id");
      return builder_.token(static_cast<TokenId>(id));
    }
    const std::size_t end = text_.find_first_of(">\n", at_);
    if (end == std::string_view::npos || text_[end] != '>') fail("'<' without '>'");
    const std::string name(text_.substr(at_ - 1, end + 2 - at_));
    at_ = end + 1;
    const std::optional<TokenId> found = find_token_ ? find_token_(name) : std::nullopt;
    if (!found) fail("the vocabulary has no token '" + name + "'");
    return builder_.token(*found);
  }

  std::string_view text_;
  const FindToken& find_token_;
  GrammarBuilder builder_;
  std::map<std::string, NamedRule> rules_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

Grammar parse_gbnf(std::string_view text, const FindToken& find_token) {
  return GbnfParser(text, find_token).parse();
}

}  // namespace troupe
