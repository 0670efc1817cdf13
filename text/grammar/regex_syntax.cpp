// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex_syntax.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/utf8.hpp"

namespace troupe {
namespace {

using Kind = RegexNode::Kind;

constexpr std::size_t kMaxPatternBytes = 64 << 10;
constexpr int kMaxNesting = 100;

CharacterSet digits() { return CharacterSet({{U'0', U'9'}}); }
CharacterSet word_characters() {
  return CharacterSet({{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}, {U'_', U'_'}});
}
CharacterSet spaces() {
  return CharacterSet({{9, 13},
                       {0x20, 0x20},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000},
                       {0xFEFF, 0xFEFF}});
}
CharacterSet line_ends() { return CharacterSet({{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}}); }

RegexNode characters(CharacterSet set) { return {.kind = Kind::kCharacters, .characters = std::move(set)}; }

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {
    if (pattern.size() > kMaxPatternBytes)
      throw GrammarError("a pattern of " + std::to_string(pattern.size()) + " bytes, expected at most " +
                         std::to_string(kMaxPatternBytes));
    if (const std::size_t valid = valid_utf8_prefix(pattern); valid != pattern.size()) {
      at_ = valid;
      fail("a byte that is not UTF-8");
    }
  }

  RegexNode parse() {
    RegexNode node = choice();
    if (!is_end()) fail("')' without '('");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw GrammarError("pattern, offset " + std::to_string(at_) + ": " + reason);
  }
  bool is_end() const { return at_ == pattern_.size(); }
  bool is_next(char c) const { return !is_end() && pattern_[at_] == c; }
  bool skip(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t character() {
    if (is_end()) fail("the pattern ends too early");
    const Utf8Character next = next_utf8_character(pattern_.substr(at_));
    at_ += next.num_bytes;
    return next.code_point;
  }

  RegexNode choice() {
    if (++nesting_ > kMaxNesting) fail("groups nested deeper than " + std::to_string(kMaxNesting));
    RegexNode node{.kind = Kind::kChoice};
    do node.parts.push_back(sequence());
    while (skip("|"));
    --nesting_;
    return node.parts.size() == 1 ? std::move(node.parts.front()) : node;
  }

  RegexNode sequence() {
    RegexNode node{.kind = Kind::kSequence};
    while (!is_end() && !is_next('|') && !is_next(')')) node.parts.push_back(repeated(term()));
    return node;
  }

  RegexNode repeated(RegexNode part) {
    const std::size_t begin = at_;
    std::pair<std::uint32_t, std::uint32_t> times{1, 1};
    if (skip("*")) {
      times = {0, kUnboundedCount};
    } else if (skip("+")) {
      times = {1, kUnboundedCount};
    } else if (skip("?")) {
      times = {0, 1};
    } else if (const auto counted = counts()) {
      times = *counted;
    } else {
      return part;
    }
    skip("?");  // a lazy match is a match
    if (part.kind == Kind::kTextBegin || part.kind == Kind::kTextEnd) {
      at_ = begin;
      fail("a repetition of ^ or $");
    }
    if (is_next('*') || is_next('+') || is_next('?') || counts()) fail("a repetition of a repetition");
    RegexNode node{.kind = Kind::kRepeat, .min = times.first, .max = times.second};
    node.parts.push_back(std::move(part));
    return node;
  }

  // {n}, {n,} or {n,m}; a brace that begins none of these is a character.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> counts() {
    const std::size_t begin = at_;
    const auto none = [&] {
      at_ = begin;
      return std::nullopt;
    };
    if (!skip("{")) return std::nullopt;
    const auto min = number();
    if (!min) return none();
    std::optional<std::uint32_t> max = min;
    if (skip(",")) max = is_next('}') ? kUnboundedCount : number();
    if (!max || !skip("}")) return none();
    if (*min > *max) fail("a repetition whose least count is above its most");
    return std::pair(*min, *max);
  }

  std::optional<std::uint32_t> number() {
    const std::size_t begin = at_;
    std::uint32_t value = 0;
    for (; !is_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(pattern_[at_] - '0');
      if (value > GrammarBuilder::kMaxRepetitions)
        fail("a count above " + std::to_string(GrammarBuilder::kMaxRepetitions));
    }
    if (at_ == begin) return std::nullopt;
    return value;
  }

  RegexNode term() {
    if (skip("^")) return {.kind = Kind::kTextBegin};
    if (skip("$")) return {.kind = Kind::kTextEnd};
    if (skip("(")) return group();
    if (skip("[")) return characters(bracket());
    if (skip(".")) return characters(line_ends().complement());
    if (skip("\\")) return characters(escape(false));
    if (is_next('*') || is_next('+') || is_next('?')) fail("nothing to repeat");
    return characters(CharacterSet::of(character()));
  }

  RegexNode group() {
    if (skip("?")) {
      if (is_next('=') || is_next('!') || pattern_.substr(at_).starts_with("<=") ||
          pattern_.substr(at_).starts_with("<!"))
        fail("look-around is not supported");
      if (skip("<") || skip("P<")) {
        while (!is_end() && !is_next('>')) ++at_;
        if (!skip(">")) fail("a group's name without '>'");
      } else if (!skip(":")) {
        fail("flags inside a pattern are not supported");
      }
    }
    RegexNode node = choice();
    if (!skip(")")) fail("'(' without ')'");
    return node;
  }

  CharacterSet bracket() {
    const bool is_negated = skip("^");
    std::vector<CharacterRange> ranges;
    const auto add = [&](const CharacterSet& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (!skip("]")) {
      if (is_end()) fail("'[' without ']'");
      const CharacterSet first = bracket_part();
      if (!is_next('-') || pattern_.substr(at_).starts_with("-]")) {
        add(first);
        continue;
      }
      skip("-");
      const CharacterSet last = bracket_part();
      if (!is_one(first) || !is_one(last)) {
        add(first);
        add(last);
        ranges.push_back({U'-', U'-'});
        continue;
      }
      const CharacterRange range{first.ranges().front().first, last.ranges().front().first};
      if (range.first > range.last) fail("a range whose first character is behind its last");
      ranges.push_back(range);
    }
    CharacterSet set(std::move(ranges));
    return is_negated ? set.complement() : set;
  }

  static bool is_one(const CharacterSet& set) {
    return set.ranges().size() == 1 && set.ranges().front().first == set.ranges().front().last;
  }

  CharacterSet bracket_part() {
    if (skip("\\")) return escape(true);
    return CharacterSet::of(character());
  }

  CharacterSet escape(bool is_in_bracket) {
    const char32_t c = character();
    switch (c) {
      case U'd': return digits();
      case U'D': return digits().complement();
      case U'w': return word_characters();
      case U'W': return word_characters().complement();
      case U's': return spaces();
      case U'S': return spaces().complement();
      case U't': return CharacterSet::of(U'\t');
      case U'n': return CharacterSet::of(U'\n');
      case U'r': return CharacterSet::of(U'\r');
      case U'f': return CharacterSet::of(U'\f');
      case U'v': return CharacterSet::of(U'\v');
      case U'0': return CharacterSet::of(0);
      case U'x': return CharacterSet::of(hexadecimal(2));
      case U'u': return CharacterSet::of(unicode_escape());
      case U'b':
        if (is_in_bracket) return CharacterSet::of(U'\b');
        fail("word boundaries (\\b) are not supported");
      case U'B': fail("word boundaries (\\B) are not supported");
      case U'p':
      case U'P': fail("Unicode properties (\\p) are not supported");
      case U'k': fail("back references (\\k) are not supported");
      default: break;
    }
    if (c >= U'1' && c <= U'9') fail("back references (\\1) are not supported");
    if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z')) fail("an unknown escape");
    return CharacterSet::of(c);
  }

  char32_t unicode_escape() {
    if (skip("{")) {
      const char32_t value = hexadecimal(0);
      if (!skip("}")) fail("\\u{ without '}'");
      return value;
    }
    const char32_t high = hexadecimal(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !skip("\\u")) fail("half of a surrogate pair");
    const char32_t low = hexadecimal(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  // num_digits: 0 for as many as there are.
  char32_t hexadecimal(std::size_t num_digits) {
    char32_t value = 0;
    std::size_t number = 0;
    for (; !is_end() && (num_digits == 0 || number < num_digits); ++number, ++at_) {
      const char c = pattern_[at_];
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<char32_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + static_cast<char32_t>(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F')
        value = value * 16 + static_cast<char32_t>(c - 'A' + 10);
      else
        break;
      if (value > 0x10FFFF) fail("a character above U+10FFFF");
    }
    if (number == 0 || number < num_digits) fail("expected hexadecimal digits");
    return value;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

RegexNode anything() {
  RegexNode node{.kind = Kind::kRepeat, .min = 0, .max = kUnboundedCount};
  node.parts.push_back(characters(CharacterSet::all()));
  return node;
}

bool has_anchors(const RegexNode& node) {
  return node.kind == Kind::kTextBegin || node.kind == Kind::kTextEnd ||
         std::any_of(node.parts.begin(), node.parts.end(), has_anchors);
}

// node: the whole pattern, or one that stands for it.
RegexNode resolved(RegexNode node, bool is_search) {
  if (node.kind == Kind::kChoice) {
    for (RegexNode& part : node.parts) part = resolved(std::move(part), is_search);
    return node;
  }
  if (node.kind == Kind::kSequence && node.parts.size() == 1 && node.parts.front().kind != Kind::kTextBegin &&
      node.parts.front().kind != Kind::kTextEnd)
    return resolved(std::move(node.parts.front()), is_search);
  RegexNode sequence{.kind = Kind::kSequence};
  if (node.kind == Kind::kSequence)
    sequence.parts = std::move(node.parts);
  else
    sequence.parts.push_back(std::move(node));
  auto& parts = sequence.parts;
  const bool begins = !parts.empty() && parts.front().kind == Kind::kTextBegin;
  if (begins) parts.erase(parts.begin());
  const bool ends = !parts.empty() && parts.back().kind == Kind::kTextEnd;
  if (ends) parts.pop_back();
  if (has_anchors(sequence))
    throw GrammarError("pattern: ^ and $ are supported at the beginning and the end only");
  if (is_search && !begins) parts.insert(parts.begin(), anything());
  if (is_search && !ends) parts.push_back(anything());
  return sequence;
}

std::uint32_t sum(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(a + b, kUnboundedCount));
}
std::uint32_t product(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(a * b, kUnboundedCount));
}

}  // namespace

RegexNode parse_regex_syntax(std::string_view pattern) { return RegexParser(pattern).parse(); }
RegexNode whole_match(RegexNode pattern) { return resolved(std::move(pattern), false); }
RegexNode found_anywhere(RegexNode pattern) { return resolved(std::move(pattern), true); }

RegexLengths lengths_of(const RegexNode& node) {
  RegexLengths lengths;
  switch (node.kind) {
    case Kind::kCharacters: return {1, 1};
    case Kind::kTextBegin:
    case Kind::kTextEnd: return {0, 0};
    case Kind::kSequence:
      for (const RegexNode& part : node.parts) {
        const RegexLengths other = lengths_of(part);
        lengths = {sum(lengths.min, other.min), sum(lengths.max, other.max)};
      }
      return lengths;
    case Kind::kChoice:
      lengths.min = kUnboundedCount;
      for (const RegexNode& part : node.parts) {
        const RegexLengths other = lengths_of(part);
        lengths = {std::min(lengths.min, other.min), std::max(lengths.max, other.max)};
      }
      return lengths;
    case Kind::kRepeat: {
      const RegexLengths once = lengths_of(node.parts.front());
      return {product(once.min, node.min), product(once.max, node.max)};
    }
  }
  return lengths;
}

GrammarExpression regex_expression(GrammarBuilder& builder, const RegexNode& node,
                                   const std::function<GrammarExpression(const CharacterSet&)>& spell) {
  if (node.kind == Kind::kCharacters) return spell(node.characters);
  std::vector<GrammarExpression> parts;
  for (const RegexNode& part : node.parts) parts.push_back(regex_expression(builder, part, spell));
  if (node.kind == Kind::kRepeat) return builder.repeat(parts.front(), node.min, node.max);
  return node.kind == Kind::kChoice ? builder.any_of(std::move(parts)) : builder.sequence(std::move(parts));
}

}  // namespace troupe
