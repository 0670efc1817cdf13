// SPDX-License-Identifier: Apache-2.0
// Regular expressions as grammars: the part of ECMAScript's syntax, in its Unicode mode, that says
// something about characters. Look-around, back references and word boundaries are refused by name.
#pragma once

#include <string_view>

#include "text/grammar/grammar.hpp"

namespace troupe {

// The whole text must match; ^ at its beginning and $ at its end say nothing new. Throws GrammarError
// naming the offset and the construct.
Grammar parse_regex(std::string_view pattern);

}  // namespace troupe
