// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/grammar/json_number.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

ByteSet bytes_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<unsigned char>(byte));
  return set;
}

CharacterSet plain_ascii() { return CharacterSet({{0, 0x7F}}).without(plain_json_characters().complement()); }

}  // namespace

std::string json_literal(std::string_view text) { return nlohmann::json(text).dump(); }

GrammarExpression JsonText::any_value() {
  if (value_) return builder_.call(*value_);
  value_ = builder_.declare_rule();
  builder_.define(*value_, builder_.any_of({any_object(), any_array(), any_string(),
                                            json_number(builder_, {}), boolean(), null()}));
  return builder_.call(*value_);
}

GrammarExpression JsonText::any_object() {
  return enclosed("{", list(pair(any_string(), any_value()), 0, kUnboundedCount), "}");
}

GrammarExpression JsonText::any_array() { return enclosed("[", list(any_value(), 0, kUnboundedCount), "]"); }

GrammarExpression JsonText::any_string(std::uint32_t min_length, std::uint32_t max_length) {
  const auto characters = [&] {
    const auto one = spelling_.separators ? spelled(CharacterSet::all()) : string_character();
    return builder_.repeat(one, min_length, max_length);
  };
  if (min_length != 0 || max_length != kUnboundedCount) return quoted(characters());
  if (!string_) {
    string_ = builder_.declare_rule();
    builder_.define(*string_, quoted(characters()));
  }
  return builder_.call(*string_);
}

GrammarExpression JsonText::boolean() { return builder_.any_text({literal(true), literal(false)}); }

GrammarExpression JsonText::null() { return builder_.text(literal(nullptr)); }

std::string JsonText::literal(const nlohmann::ordered_json& value) const {
  if (value.is_structured())
    return literal_parts(
        value, spelling_.separators.value_or(spelling_.is_python ? JsonSeparators() : compact_separators()));
  if (!spelling_.is_python || value.is_string() || value.is_number()) return with_escapes(value.dump());
  if (value.is_null()) return "None";
  return value.get<bool>() ? "True" : "False";
}

std::string JsonText::literal_parts(const nlohmann::ordered_json& value,
                                    const JsonSeparators& separators) const {
  std::string text(1, value.is_object() ? '{' : '[');
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += separators.comma;
    if (value.is_object()) text += with_escapes(json_literal(key)) + separators.colon;
    text += literal(member);
  }
  return text + (value.is_object() ? '}' : ']');
}

// JSON holds the character in strings only.
std::string JsonText::with_escapes(std::string json) const {
  if (!spelling_.escaped) return json;
  std::string out;
  for (const char character : json) {
    if (character != *spelling_.escaped) {
      out += character;
      continue;
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(character);
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

CharacterSet JsonText::plain_characters() const {
  const CharacterSet plain = plain_json_characters();
  if (!spelling_.escaped) return plain;
  return plain.without(CharacterSet::of(static_cast<unsigned char>(*spelling_.escaped)));
}

GrammarExpression JsonText::quoted(GrammarExpression content) { return enclosed("\"", content, "\""); }

// Escapes of surrogates come in pairs, and are one character.
GrammarExpression JsonText::string_character() {
  const auto digit = [&] { return builder_.byte_of(bytes_of("0123456789abcdefABCDEF")); };
  const auto one_of = [&](std::string_view bytes) { return builder_.byte_of(bytes_of(bytes)); };
  const auto other = builder_.any_of(
      {builder_.sequence({one_of("0123456789abcABCefEF"), digit(), digit(), digit()}),
       builder_.sequence({one_of("dD"), one_of("01234567"), digit(), digit()}),
       builder_.sequence({one_of("dD"), one_of("89abAB"), digit(), digit(), builder_.text("\\u"),
                          one_of("dD"), one_of("cdefCDEF"), digit(), digit()})});
  const auto escape = builder_.sequence(
      {builder_.text("\\"),
       builder_.any_of({one_of("\"\\/bfnrt"), builder_.sequence({builder_.text("u"), other})})});
  return builder_.any_of({one_character(builder_, plain_characters()), escape});
}

GrammarExpression JsonText::spelled(const CharacterSet& set) {
  const CharacterSet never_plain = plain_characters().complement();
  std::vector<GrammarExpression> choices;
  if (const CharacterSet as_is = set.without(never_plain); !as_is.is_empty())
    choices.push_back(one_character(builder_, as_is));
  std::vector<std::string> escaped;
  for (const CharacterRange& range : never_plain.ranges())
    for (char32_t character = range.first; character <= range.last; ++character) {
      if (!set.contains(character)) continue;
      std::string text;
      append_utf8(text, character);
      const std::string quoted_text = with_escapes(json_literal(text));
      escaped.push_back(quoted_text.substr(1, quoted_text.size() - 2));
    }
  if (!escaped.empty()) choices.push_back(builder_.any_text(std::move(escaped)));
  return builder_.any_of(std::move(choices));
}

GrammarExpression JsonText::key_beside(const std::vector<std::string>& others) {
  std::vector<std::u32string> sorted;
  for (const std::string& other : others) sorted.push_back(characters_of(other));
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const GrammarRule anything = builder_.declare_rule();
  builder_.define(anything, builder_.repeat(spelled(CharacterSet::all()), 0, kUnboundedCount));
  const GrammarRule beyond_ascii = builder_.declare_rule();
  builder_.define(beyond_ascii,
                  builder_.sequence({spelled(plain_ascii().complement()), builder_.call(anything)}));
  return quoted(key_tail(sorted, 0, {.anything = anything, .beyond_ascii = beyond_ascii}));
}

// The texts that are none of `others`, which agree in `depth` characters that have been read.
GrammarExpression JsonText::key_tail(std::span<const std::u32string> others, std::size_t depth,
                                     const KeyTails& tails) {
  std::vector<GrammarExpression> choices;
  if (!others.empty() && others.front().size() == depth)
    others = others.subspan(1);
  else
    choices.push_back(builder_.empty());
  std::vector<CharacterRange> known_ranges;
  while (!others.empty()) {
    const char32_t character = others.front()[depth];
    std::size_t next = 1;
    while (next < others.size() && others[next][depth] == character) ++next;
    choices.push_back(builder_.sequence(
        {spelled(CharacterSet::of(character)), key_tail(others.first(next), depth + 1, tails)}));
    known_ranges.push_back({character, character});
    others = others.subspan(next);
  }
  const CharacterSet known(std::move(known_ranges));
  const CharacterSet plain = plain_ascii();
  const bool is_all_plain = known.without(plain).is_empty();
  const CharacterSet rest = is_all_plain ? plain.without(known) : known.complement();
  choices.push_back(builder_.sequence({spelled(rest), builder_.call(tails.anything)}));
  if (is_all_plain) choices.push_back(builder_.call(tails.beyond_ascii));
  return builder_.any_of(std::move(choices));
}

GrammarExpression JsonText::separator(const std::string JsonSeparators::*mark) {
  if (spelling_.separators) return builder_.text((*spelling_.separators).*mark);
  return builder_.sequence(
      {builder_.text(compact_separators().*mark), builder_.optional(builder_.text(" "))});
}

GrammarExpression JsonText::pair(GrammarExpression key, GrammarExpression value) {
  return builder_.sequence({key, separator(&JsonSeparators::colon), value});
}

GrammarExpression JsonText::pair(std::string_view key, GrammarExpression value) {
  return pair(builder_.text(with_escapes(json_literal(key))), value);
}

GrammarExpression JsonText::list(GrammarExpression part, std::uint32_t min, std::uint32_t max) {
  if (max == 0) return min == 0 ? builder_.empty() : builder_.nothing();
  const GrammarExpression more = builder_.sequence({comma(), part});
  const std::uint32_t least = std::max(min, 1U) - 1;
  const std::uint32_t most = max == kUnboundedCount ? max : max - 1;
  const auto parts = builder_.sequence({part, builder_.repeat(more, least, most)});
  return min == 0 ? builder_.optional(parts) : parts;
}

GrammarExpression JsonText::enclosed(std::string_view open, GrammarExpression content,
                                     std::string_view close) {
  return builder_.sequence({builder_.text(open), content, builder_.text(close)});
}

}  // namespace troupe
