// SPDX-License-Identifier: Apache-2.0
// A second opinion on regular expressions: PCRE's.
#pragma once

#include <optional>
#include <string_view>

namespace troupe::fuzz {

// True if the whole text matches. nullopt: the pattern has something that ECMAScript and
// PCRE read differently, or PCRE gives up.
std::optional<bool> pcre_matches(std::string_view pattern, std::string_view text);

}  // namespace troupe::fuzz
