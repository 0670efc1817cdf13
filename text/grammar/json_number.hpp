// SPDX-License-Identifier: Apache-2.0
// JSON numbers within bounds, as expressions over their digits. Digits are bounded, so that no answer is
// spent on one number, and every number fits a double or a 64-bit integer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/grammar_builder.hpp"

namespace troupe {

inline constexpr std::int64_t kMaxJsonInteger = 999'999'999'999'999'999;  // 18 digits
inline constexpr std::uint32_t kMaxWholeDigits = 15;                      // of a number with a fraction
inline constexpr std::uint32_t kMaxFractionDigits = 16;

// [min, max] without a sign for zero.
GrammarExpression json_integer(GrammarBuilder& builder, std::int64_t min = -kMaxJsonInteger,
                               std::int64_t max = kMaxJsonInteger);

struct DecimalBound {
  bool is_negative = false;
  std::uint64_t whole = 0;  // at most kMaxWholeDigits digits
  std::string fraction;     // digits, without zeros at the end
  bool is_exclusive = false;
};
// text: as JSON or std::to_chars spells a number without an exponent. nullopt: more digits than numbers
// may have here.
std::optional<DecimalBound> decimal_bound(std::string_view text, bool is_exclusive);

struct NumberBounds {
  std::optional<DecimalBound> lower;
  std::optional<DecimalBound> upper;
  std::optional<std::uint32_t> max_fraction_digits;
};
// With an exponent only where nothing bounds the number.
GrammarExpression json_number(GrammarBuilder& builder, const NumberBounds& bounds);

}  // namespace troupe
