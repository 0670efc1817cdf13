// SPDX-License-Identifier: Apache-2.0
// A regular expression as a tree over characters, before it is known how characters are spelled: plainly
// in a text, or escaped in a JSON string.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/grammar/character_set.hpp"
#include "text/grammar/grammar_builder.hpp"

namespace troupe {

struct RegexNode {
  enum class Kind : std::uint8_t { kCharacters, kSequence, kChoice, kRepeat, kTextBegin, kTextEnd };
  Kind kind = Kind::kSequence;
  CharacterSet characters = {};
  std::vector<RegexNode> parts = {};  // of a repetition, the one
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

// Throws GrammarError naming the offset and the construct.
RegexNode parse_regex_syntax(std::string_view pattern);

// The tree of all texts that match as a whole, without ^ and $. Throws GrammarError where one of these
// stands elsewhere than at the beginning or the end.
RegexNode whole_match(RegexNode pattern);
// The tree of all texts in which the pattern is found, as JSON schemas mean it.
RegexNode found_anywhere(RegexNode pattern);

// Lengths of a tree's texts, in characters. max: kUnboundedCount for no limit; min is kUnboundedCount of a
// tree without texts.
struct RegexLengths {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};
RegexLengths lengths_of(const RegexNode& node);

// node: without ^ and $. spell: one character of a set.
GrammarExpression regex_expression(GrammarBuilder& builder, const RegexNode& node,
                                   const std::function<GrammarExpression(const CharacterSet&)>& spell);

}  // namespace troupe
