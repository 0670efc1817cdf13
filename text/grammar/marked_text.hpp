// SPDX-License-Identifier: Apache-2.0
// Plain text around markers as expressions. The text in front of a marker does not hold it, so that
// a reader of an answer up to the first marker reads what the grammar meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/character_set.hpp"
#include "text/grammar/grammar_builder.hpp"

namespace troupe {

// Any text up to the first `end`, and `end` itself. Not empty, UTF-8. The first character is none of
// `not_first`.
GrammarExpression text_until(GrammarBuilder& builder, std::string_view end,
                             const CharacterSet& not_first = {});

// Any text that holds none of `marks`, which are as `end` above.
GrammarExpression text_without(GrammarBuilder& builder, const std::vector<std::string>& marks,
                               const CharacterSet& not_first = {});

// The same of text that is free (GrammarBuilder::declare_free_text), from its first character on.
GrammarExpression free_text_until(GrammarBuilder& builder, std::string_view end);
GrammarExpression free_text_without(GrammarBuilder& builder, const std::vector<std::string>& marks);

}  // namespace troupe
