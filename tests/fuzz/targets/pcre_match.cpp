// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/pcre_match.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::fuzz {
namespace {

constexpr std::string_view kSpecial = "()|*+?{},[]- ";
constexpr std::uint32_t kMostSteps = 20'000;

template <auto free>
struct Freed {
  template <class Thing>
  void operator()(Thing* thing) const {
    free(thing);
  }
};

bool is_read_alike(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          kSpecial.find(c) != kSpecial.npos;
    const bool opens_class = c == '^' && i > 0 && pattern[i - 1] == '[';
    if (!is_plain && !opens_class) return false;
  }
  // PCRE repeats an empty class not even zero times.
  for (const std::string_view other : {"(?", "{,", "[]"})
    if (pattern.find(other) != pattern.npos) return false;
  return true;
}

}  // namespace

std::optional<bool> pcre_matches(std::string_view pattern, std::string_view text) {
  if (!is_read_alike(pattern)) return std::nullopt;
  int error = 0;
  std::size_t offset = 0;
  const std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_ALLOW_EMPTY_CLASS, &error, &offset, nullptr));
  if (code == nullptr) return std::nullopt;
  const std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMostSteps);
  const int result = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                 match.get(), context.get());
  if (result >= 0) return true;
  return result == PCRE2_ERROR_NOMATCH ? std::optional(false) : std::nullopt;
}

}  // namespace troupe::fuzz
