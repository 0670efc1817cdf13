// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex.hpp"

#include "text/grammar/character_set.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/regex_syntax.hpp"

namespace troupe {

Grammar parse_regex(std::string_view pattern) {
  GrammarBuilder builder;
  const auto spell = [&](const CharacterSet& set) { return one_character(builder, set); };
  return builder.build(regex_expression(builder, whole_match(parse_regex_syntax(pattern)), spell));
}

}  // namespace troupe
