// SPDX-License-Identifier: Apache-2.0
// Characters that the reference's regular expressions know (Oniguruma's, of Unicode 16) and ours don't (PCRE2
// 10.42's, of Unicode 14). A matcher reads a stand-in for each: a character with as many bytes, the same
// category and, where there is one, the same script, so that its matches lie where the reference has them.
// A range of an expression that ends between a character and its stand-in is answered for the stand-in, and
// U+180E, which PCRE2 takes for white space, is not Mongolian to an expression.
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

// True if the expression names a newer character or a stand-in, itself or as "\x{1D2CA}": it must read texts
// as they are. expression: valid UTF-8.
bool names_newer_characters(std::string_view expression);

// `text` itself if it has no newer character; else its copy in `copy`, with stand-ins. Offsets are the same.
// text: valid UTF-8. budget: asked now and then; nothing is spent.
std::string_view with_stand_ins(std::string_view text, std::string& copy, const EncodingBudget& budget);

}  // namespace troupe
