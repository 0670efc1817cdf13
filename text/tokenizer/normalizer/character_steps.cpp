// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/character_steps.hpp"

#include <utf8proc.h>

#include <array>
#include <cstddef>

#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130;
// Capital letters that utf8proc's Unicode 15 has not, and the reference (17) has.
struct NewerCapitals {
  char32_t first;
  char32_t last;
  char32_t first_lower;
};
constexpr auto kNewerCapitals = std::to_array<NewerCapitals>({
    {0x1C89, 0x1C89, 0x1C8A},
    {0xA7CB, 0xA7CB, 0x264},
    {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},
    {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},
    {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
});
// None below it is a combining mark.
constexpr char32_t kFirstMark = 0x300;

bool is_mark(char32_t code_point) {
  if (code_point < kFirstMark) return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

char32_t lower_case(char32_t code_point) {
  if (code_point >= kNewerCapitals.front().first) {
    for (const NewerCapitals& range : kNewerCapitals)
      if (code_point >= range.first && code_point <= range.last)
        return range.first_lower + (code_point - range.first);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

// Calls take(code_point, bytes) for each character.
template <class Take>
void for_each_character(std::string_view text, EncodingBudget& budget, Take take) {
  budget.spend(text.size());
  while (!text.empty()) {
    const Utf8Character character = next_utf8_character(text);
    take(character.code_point, text.substr(0, character.num_bytes));
    text.remove_prefix(character.num_bytes);
  }
}

// White_Space, without the separators that Python takes for spaces.
bool is_white_space(char32_t code_point) {
  return is_unicode_space(code_point) && !(code_point >= 0x1C && code_point <= 0x1F);
}

std::size_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
  return begin;
}

}  // namespace

std::string lowercased(std::string_view text, EncodingBudget& budget) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, budget,
                     [&](char32_t code_point, std::string_view) { append_lowercase(code_point, out); });
  return out;
}

std::string without_marks(std::string_view text, EncodingBudget& budget) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, budget, [&](char32_t code_point, std::string_view bytes) {
    if (!is_mark(code_point)) out += bytes;
  });
  return out;
}

std::string_view stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const Utf8Character first = next_utf8_character(text);
    if (!is_white_space(first.code_point)) break;
    text.remove_prefix(first.num_bytes);
  }
  while (right && !text.empty()) {
    const std::size_t last = last_character(text);
    if (!is_white_space(next_utf8_character(text.substr(last)).code_point)) break;
    text = text.substr(0, last);
  }
  return text;
}

void append_lowercase(char32_t code_point, std::string& out) {
  // The only one whose lower case is two characters.
  if (code_point == kCapitalIWithDot) {
    out += "i\u0307";
  } else {
    append_utf8(out, lower_case(code_point));
  }
}

}  // namespace troupe
