// SPDX-License-Identifier: Apache-2.0
// Normalizers that look at one character at a time. Texts are valid UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "text/encoding_budget.hpp"

namespace troupe {

// Throw EncodingStopped.
std::string lowercased(std::string_view text, EncodingBudget& budget);
// Without combining marks of any kind; composed characters stay. Hugging Face's tokenizers know no marks
// that came after Unicode 9: those stay there.
std::string without_marks(std::string_view text, EncodingBudget& budget);

// Without white space on the sides that are named.
std::string_view stripped(std::string_view text, bool left, bool right);

// Its lower case, of whatever language.
void append_lowercase(char32_t code_point, std::string& out);

}  // namespace troupe
