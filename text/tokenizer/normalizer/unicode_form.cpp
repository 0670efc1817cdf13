// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/unicode_form.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "text/utf8.hpp"

namespace troupe {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

constexpr std::size_t kMaxDecomposition = 32;  // Unicode's longest has 18 code points
constexpr std::size_t kCharactersASpend = 4096;
// None below it is a combining mark.
constexpr utf8proc_int32_t kFirstMark = 0x300;

utf8proc_option_t utf8proc_options(UnicodeForm form) {
  const bool composes = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool is_compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

[[noreturn]] void fail(utf8proc_ssize_t error) {
  throw std::runtime_error(std::string("utf8proc: ") + utf8proc_errmsg(error));
}

[[noreturn]] void refuse_growth(std::size_t max_bytes) {
  throw EncodingStopped(EncodingStop::kTooMuchWork,
                        "the normalizer makes more than " + std::to_string(max_bytes) + " bytes of the text");
}

CodePoints decomposed(std::string_view text, utf8proc_option_t options, std::size_t max_bytes,
                      EncodingBudget& budget) {
  CodePoints result;
  result.reserve(text.size() / 2);
  std::array<utf8proc_int32_t, kMaxDecomposition> parts{};
  int last_boundary = UTF8PROC_BOUNDCLASS_START;
  std::size_t num_characters = 0;
  while (!text.empty()) {
    const Utf8Character character = next_utf8_character(text);
    text.remove_prefix(character.num_bytes);
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point), parts.data(),
                                parts.size(), options, &last_boundary);
    if (count < 0) fail(count);
    if (static_cast<std::size_t>(count) > parts.size()) fail(UTF8PROC_ERROR_OVERFLOW);
    result.insert(result.end(), parts.begin(), parts.begin() + count);
    if (++num_characters % kCharactersASpend == 0) budget.spend(kCharactersASpend);
    if (result.size() > max_bytes) refuse_growth(max_bytes);
  }
  return result;
}

int combining_class(utf8proc_int32_t code_point) {
  return code_point < kFirstMark ? 0 : utf8proc_get_property(code_point)->combining_class;
}

// Unicode's canonical order: runs of combining marks by their class, else as they were.
void order_marks(CodePoints& text, EncodingBudget& budget) {
  for (std::size_t begin = 0; begin < text.size();) {
    if (combining_class(text[begin]) == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    budget.spend(end - begin);
    const auto at = [&](std::size_t i) { return text.begin() + static_cast<std::ptrdiff_t>(i); };
    std::stable_sort(at(begin), at(end), [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    begin = end;
  }
}

}  // namespace

// Not utf8proc_map: its time is quadratic in the length of a run of marks.
std::string normal_form(std::string_view text, UnicodeForm form, std::size_t max_bytes,
                        EncodingBudget& budget) {
  budget.spend(text.size());
  if (is_ascii(text)) return std::string(text);
  const utf8proc_option_t options = utf8proc_options(form);
  CodePoints code_points = decomposed(text, options, max_bytes, budget);
  order_marks(code_points, budget);
  // Encoded in place, with a zero behind.
  const auto count = static_cast<utf8proc_ssize_t>(code_points.size());
  code_points.push_back(0);
  const utf8proc_ssize_t size = utf8proc_reencode(code_points.data(), count, options);
  if (size < 0) fail(size);
  if (static_cast<std::size_t>(size) > max_bytes) refuse_growth(max_bytes);
  return std::string(reinterpret_cast<const char*>(code_points.data()), static_cast<std::size_t>(size));
}

}  // namespace troupe
