// SPDX-License-Identifier: Apache-2.0
// Characters that the reference's regular expressions know (Oniguruma's, of Unicode 16) and ours don't (PCRE2
// 10.42's, of Unicode 14). A matcher reads a stand-in for each: a character with as many bytes, the same
// category and the same script, so that its matches lie where the reference has them. U+180E has one, too:
// PCRE2's \s takes it for white space.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/encoding_budget.hpp"

namespace troupe {

// The characters [first, last], and one that Unicode 14 has and that a pattern treats alike.
struct NewerCharacters {
  char32_t first;
  char32_t last;
  char32_t stand_in;
};

// Sorted; no two overlap.
std::span<const NewerCharacters> newer_characters();

// `text` itself if it has no newer character; else its copy in `copy`, with stand-ins. Offsets are the same.
// text: valid UTF-8. budget: asked now and then; nothing is spent.
std::string_view with_stand_ins(std::string_view text, std::string& copy, const EncodingBudget& budget);

}  // namespace troupe
