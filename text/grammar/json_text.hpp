// SPDX-License-Identifier: Apache-2.0
// JSON's own syntax as expressions: strings, numbers, arrays, objects, any value. Texts are compact but
// for at most one space behind a colon or a comma, so that no answer is spent on white space, unless the
// spelling names its separators.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/character_set.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_separators.hpp"

namespace troupe {

// How JSON is spelled where it stands in a text of another kind.
struct JsonSpelling {
  std::optional<char> escaped = {};  // an ASCII character that strings hold as \u00XX only
  bool is_python = false;            // True, False and None
  // Present: these only, and each character of a string in one way, escaped only where it must be.
  std::optional<JsonSeparators> separators = {};
};

class JsonText {
 public:
  // The builder must outlive this.
  explicit JsonText(GrammarBuilder& builder, const JsonSpelling& spelling = {})
      : builder_(builder), spelling_(spelling) {}

  GrammarExpression any_value();
  GrammarExpression any_object();
  GrammarExpression any_array();
  // In characters, however they are escaped.
  GrammarExpression any_string(std::uint32_t min_length = 0, std::uint32_t max_length = kUnboundedCount);
  GrammarExpression boolean();
  GrammarExpression null();

  // The text of one value.
  std::string literal(const nlohmann::ordered_json& value) const;

  GrammarExpression quoted(GrammarExpression content);
  // One character of the set inside a string, in the one way in which it is spelled: escaped only where
  // it must be.
  GrammarExpression spelled(const CharacterSet& set);
  // A key that is none of `others`. Keys have one spelling each.
  GrammarExpression key_beside(const std::vector<std::string>& others);

  GrammarExpression comma() { return separator(&JsonSeparators::comma); }
  GrammarExpression pair(GrammarExpression key, GrammarExpression value);
  GrammarExpression pair(std::string_view key, GrammarExpression value);
  // `part` min to max times, with commas between.
  GrammarExpression list(GrammarExpression part, std::uint32_t min, std::uint32_t max);
  GrammarExpression enclosed(std::string_view open, GrammarExpression content, std::string_view close);

 private:
  GrammarExpression separator(const std::string JsonSeparators::*mark);
  GrammarExpression string_character();
  CharacterSet plain_characters() const;
  std::string with_escapes(std::string json) const;
  std::string literal_parts(const nlohmann::ordered_json& value, const JsonSeparators& separators) const;
  // A key that has left all others behind goes on with one of these.
  struct KeyTails {
    GrammarRule anything;
    GrammarRule beyond_ascii;  // a character that is escaped or not ASCII, then anything
  };
  GrammarExpression key_tail(std::span<const std::u32string> others, std::size_t depth,
                             const KeyTails& tails);

  GrammarBuilder& builder_;
  const JsonSpelling spelling_;
  std::optional<GrammarRule> value_;
  std::optional<GrammarRule> string_;
};

// As a JSON string, with its quotation marks. text: UTF-8.
std::string json_literal(std::string_view text);

}  // namespace troupe
