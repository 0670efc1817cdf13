// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_number.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::uint64_t kMaxWhole = 999'999'999'999'999;

GrammarExpression digit(GrammarBuilder& builder) { return builder.byte_between('0', '9'); }

GrammarExpression digits(GrammarBuilder& builder, std::uint32_t min, std::uint32_t max) {
  return builder.repeat(digit(builder), min, max);
}

// Digit texts of one length, between two of them. An end that is nullopt is no bound.
GrammarExpression same_length(GrammarBuilder& builder, std::optional<std::string_view> low,
                              std::optional<std::string_view> high, std::size_t num_digits) {
  if (num_digits == 0) return builder.empty();
  if (!low && !high) {
    const auto number = static_cast<std::uint32_t>(num_digits);
    return digits(builder, number, number);
  }
  const char first = low ? low->front() : '0', last = high ? high->front() : '9';
  const auto low_rest = low ? std::optional(low->substr(1)) : std::nullopt;
  const auto high_rest = high ? std::optional(high->substr(1)) : std::nullopt;
  const auto begun = [&](char with, auto low_left, auto high_left) {
    return builder.sequence({builder.text(std::string_view(&with, 1)),
                             same_length(builder, low_left, high_left, num_digits - 1)});
  };
  const std::optional<std::string_view> free;
  if (low && high && first == last) return begun(first, low_rest, high_rest);
  std::vector<GrammarExpression> choices;
  const int begin = low ? first + 1 : first, end = high ? last - 1 : last;
  if (low) choices.push_back(begun(first, low_rest, free));
  if (begin <= end)
    choices.push_back(builder.sequence(
        {builder.byte_between(static_cast<unsigned char>(begin), static_cast<unsigned char>(end)),
         same_length(builder, free, free, num_digits - 1)}));
  if (high) choices.push_back(begun(last, free, high_rest));
  return builder.any_of(std::move(choices));
}

// Whole numbers without a sign or leading zeros.
GrammarExpression whole_between(GrammarBuilder& builder, std::uint64_t min, std::uint64_t max) {
  if (min > max) return builder.nothing();
  const std::string low = std::to_string(min), high = std::to_string(max);
  std::vector<GrammarExpression> choices;
  if (min <= 1 && high.find_first_not_of('9') == std::string::npos) {
    // All numbers of so many digits: no length needs choices of its own.
    if (min == 0) choices.push_back(builder.text("0"));
    choices.push_back(builder.sequence(
        {builder.byte_between('1', '9'), digits(builder, 0, static_cast<std::uint32_t>(high.size() - 1))}));
    return builder.any_of(std::move(choices));
  }
  for (std::size_t length = low.size(); length <= high.size(); ++length) {
    const std::string least = length == low.size() ? low : "1" + std::string(length - 1, '0');
    const std::string most = length == high.size() ? high : std::string(length, '9');
    choices.push_back(same_length(builder, least, most, length));
  }
  return builder.any_of(std::move(choices));
}

// The bounds of the digits still to come; nothing, once a digit differed.
struct Edge {
  bool is_bound = false;
  bool is_exclusive = false;
  std::string_view digits = {};
};

bool may_stop(const Edge& low, const Edge& high) {
  if (low.is_bound && (!low.digits.empty() || low.is_exclusive)) return false;
  return !high.is_bound || !high.digits.empty() || !high.is_exclusive;
}

char first_digit(const Edge& edge) { return edge.digits.empty() ? '0' : edge.digits.front(); }

Edge after_digit(Edge edge) {
  if (!edge.digits.empty()) edge.digits.remove_prefix(1);
  return edge;
}

// One digit or more.
GrammarExpression fraction_digits(GrammarBuilder& builder, Edge low, Edge high, std::uint32_t most) {
  if (most == 0) return builder.nothing();
  if (low.is_bound && low.digits.empty() && !low.is_exclusive) low = {};
  if (!low.is_bound && !high.is_bound) return digits(builder, 1, most);
  std::vector<GrammarExpression> choices;
  ByteSet free;
  const char first = low.is_bound ? first_digit(low) : '0', last = high.is_bound ? first_digit(high) : '9';
  for (char d = first; d <= last; ++d) {
    const Edge next_low = low.is_bound && d == first ? after_digit(low) : Edge{};
    const Edge next_high = high.is_bound && d == last ? after_digit(high) : Edge{};
    if (!next_low.is_bound && !next_high.is_bound) {
      free.set(static_cast<unsigned char>(d));
      continue;
    }
    const auto rest = fraction_digits(builder, next_low, next_high, most - 1);
    choices.push_back(builder.sequence({builder.text(std::string_view(&d, 1)),
                                        may_stop(next_low, next_high) ? builder.optional(rest) : rest}));
  }
  if (free.any()) choices.push_back(builder.sequence({builder.byte_of(free), digits(builder, 0, most - 1)}));
  return builder.any_of(std::move(choices));
}

GrammarExpression fraction(GrammarBuilder& builder, const Edge& low, const Edge& high, std::uint32_t most) {
  const auto part = builder.sequence({builder.text("."), fraction_digits(builder, low, high, most)});
  return may_stop(low, high) ? builder.optional(part) : part;
}

// Numbers without a sign.
GrammarExpression magnitudes(GrammarBuilder& builder, const DecimalBound& low,
                             const std::optional<DecimalBound>& high, std::uint32_t max_fraction) {
  const auto edge_of = [](const DecimalBound& bound) {
    return Edge{.is_bound = true, .is_exclusive = bound.is_exclusive, .digits = bound.fraction};
  };
  const Edge low_edge = edge_of(low), high_edge = high ? edge_of(*high) : Edge{};
  const auto whole = [&](std::uint64_t value) { return builder.text(std::to_string(value)); };
  if (high && high->whole < low.whole) return builder.nothing();
  if (high && high->whole == low.whole)
    return builder.sequence({whole(low.whole), fraction(builder, low_edge, high_edge, max_fraction)});
  std::vector<GrammarExpression> choices{
      builder.sequence({whole(low.whole), fraction(builder, low_edge, {}, max_fraction)})};
  if (high)
    choices.push_back(builder.sequence({whole(high->whole), fraction(builder, {}, high_edge, max_fraction)}));
  const std::uint64_t last = high ? high->whole - 1 : kMaxWhole;
  if (low.whole < last)
    choices.push_back(builder.sequence(
        {whole_between(builder, low.whole + 1, last), fraction(builder, {}, {}, max_fraction)}));
  return builder.any_of(std::move(choices));
}

}  // namespace

GrammarExpression json_integer(GrammarBuilder& builder, std::int64_t min, std::int64_t max) {
  const auto magnitude = [](std::int64_t value) {
    return static_cast<std::uint64_t>(value < 0 ? -value : value);
  };
  min = std::max(min, -kMaxJsonInteger);
  max = std::min(max, kMaxJsonInteger);
  if (min > max) return builder.nothing();
  std::vector<GrammarExpression> choices;
  if (max >= 0)
    choices.push_back(whole_between(builder, magnitude(std::max<std::int64_t>(min, 0)), magnitude(max)));
  if (min < 0)
    choices.push_back(builder.sequence(
        {builder.text("-"),
         whole_between(builder, magnitude(std::min<std::int64_t>(max, -1)), magnitude(min))}));
  return builder.any_of(std::move(choices));
}

std::optional<DecimalBound> decimal_bound(std::string_view text, bool is_exclusive) {
  DecimalBound bound;
  bound.is_exclusive = is_exclusive;
  if (text.starts_with("-")) {
    bound.is_negative = true;
    text.remove_prefix(1);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  if (whole.size() > kMaxWholeDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), bound.whole);
  if (error != std::errc() || end != whole.data() + whole.size()) return std::nullopt;
  if (point < text.size()) bound.fraction = text.substr(point + 1);
  while (bound.fraction.ends_with('0')) bound.fraction.pop_back();
  if (bound.fraction.size() >= kMaxFractionDigits) return std::nullopt;
  if (bound.whole == 0 && bound.fraction.empty()) bound.is_negative = false;
  return bound;
}

GrammarExpression json_number(GrammarBuilder& builder, const NumberBounds& bounds) {
  const auto& [lower, upper, max_fraction_digits] = bounds;
  const std::uint32_t max_fraction = max_fraction_digits.value_or(kMaxFractionDigits);
  if (!lower && !upper && !max_fraction_digits) {
    const auto sign = [&](std::string_view signs) {
      ByteSet set;
      for (const char c : signs) set.set(static_cast<unsigned char>(c));
      return builder.optional(builder.byte_of(set));
    };
    const auto exponent = builder.sequence({builder.any_text({"e", "E"}), sign("+-"), digits(builder, 1, 2)});
    return builder.sequence({sign("-"), whole_between(builder, 0, kMaxWhole),
                             fraction(builder, {}, {}, max_fraction), builder.optional(exponent)});
  }
  const DecimalBound zero;
  DecimalBound above_zero;
  above_zero.is_exclusive = true;
  std::vector<GrammarExpression> choices;
  if (!upper || !upper->is_negative)
    choices.push_back(magnitudes(builder, lower && !lower->is_negative ? *lower : zero, upper, max_fraction));
  // Below zero the bounds change places.
  if (!lower || lower->is_negative)
    choices.push_back(builder.sequence(
        {builder.text("-"),
         magnitudes(builder, upper && upper->is_negative ? *upper : above_zero, lower, max_fraction)}));
  return builder.any_of(std::move(choices));
}

}  // namespace troupe
