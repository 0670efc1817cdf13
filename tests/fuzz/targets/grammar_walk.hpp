// SPDX-License-Identifier: Apache-2.0
// An answer to a grammar, drawn by bytes: each chooses one of the tokens that are allowed.
// On the way the mask, what is accepted, what is forced, and the automaton run by itself
// must say the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/grammar.hpp"

namespace troupe::fuzz {

// The longest beginning of the answer that is a whole text of the grammar; nullopt: there
// was none, or it has tokens without a text.
std::optional<std::string> walk_grammar(const std::shared_ptr<const Grammar>& grammar,
                                        std::string_view choices);

// GBNF names it "<named>".
TokenId named_token();

}  // namespace troupe::fuzz
