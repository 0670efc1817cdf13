// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/bert_character.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "text/utf8.hpp"

namespace troupe {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// Between them they hold every mark, format character and punctuation that is not
// one in Unicode 8, and none that is.
constexpr auto kLaterThanUnicode8 = std::to_array<CharacterRange>({
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},     {0xA76, 0xA76},
    {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x180F, 0x1886},   {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F89},
    {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B},
    {0x11438, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455},
    {0x16E97, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F},
});

// Unicode 9 or later has moved these to other categories.
constexpr char32_t kWasMark = 0x1734;
constexpr std::array<char32_t, 2> kWerePunctuation = {0x166D, 0x111C9};

constexpr auto kIdeographs = std::to_array<CharacterRange>({
    {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},
    {0xF900, 0xFAFF},
    {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F},
    {0x2B740, 0x2B81F},
    {0x2B920, 0x2CEAF},  // from 0x2B820 in BERT's own code, but not in Hugging Face's
    {0x2F800, 0x2FA1F},
});

// `ranges` are sorted.
template <class Ranges>
bool is_in(char32_t code_point, const Ranges& ranges) {
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), code_point,
                       [](char32_t c, const CharacterRange& range) { return c < range.first; });
  return behind != ranges.begin() && code_point <= std::prev(behind)->last;
}

bool was_punctuation(char32_t code_point) {
  return code_point == kWerePunctuation[0] || code_point == kWerePunctuation[1];
}

utf8proc_category_t category_of(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

bool is_bert_space(char32_t code_point) {
  return is_unicode_space(code_point) && !(code_point >= 0x1C && code_point <= 0x1F);
}

bool is_bert_control(char32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  switch (category_of(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CO: return true;
    case UTF8PROC_CATEGORY_CF: return !is_in(code_point, kLaterThanUnicode8);
    default: return false;
  }
}

bool is_bert_mark(char32_t code_point) {
  if (code_point < 0x300) return false;
  if (category_of(code_point) != UTF8PROC_CATEGORY_MN) return code_point == kWasMark;
  return !is_in(code_point, kLaterThanUnicode8) && !was_punctuation(code_point);
}

bool is_bert_punctuation(char32_t code_point) {
  if (code_point < 0x80) return is_ascii_punctuation(code_point);
  switch (category_of(code_point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return !is_in(code_point, kLaterThanUnicode8);
    default: return was_punctuation(code_point);
  }
}

bool is_bert_ideograph(char32_t code_point) {
  return code_point >= kIdeographs.front().first && is_in(code_point, kIdeographs);
}

}  // namespace troupe
