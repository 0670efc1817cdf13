// SPDX-License-Identifier: Apache-2.0
// Grammars in the notation of llama.cpp (GBNF): rules of literals, character classes, repetitions and
// choices over Unicode characters; rule `root` is the answer.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "text/grammar/grammar.hpp"
#include "text/token_id.hpp"

namespace troupe {

// Finds the token with a name, as in <think>; nullopt: there is none.
using FindToken = std::function<std::optional<TokenId>(std::string_view name)>;

// <[123]> is a token by its id, <think> one by its spelling, "<think>", which find_token knows. Throws
// GrammarError naming the line and the construct.
Grammar parse_gbnf(std::string_view text, const FindToken& find_token = {});

}  // namespace troupe
