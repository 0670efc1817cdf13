// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/encoder_costs.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

// Nothing is known: a batch costs as much as so many tokens, beside its own.
constexpr double kGuessedTokens = 20;
constexpr double kGuessedTokenTime = 10'000;  // nanoseconds

constexpr double kFollow = 0.1;    // share of a new time in a point that lies just there
constexpr double kMostFactor = 2;  // of a new time to the one expected
constexpr double kShortest = 1;    // nanoseconds
constexpr double kLongest = 1e13;  // nearly three hours are no measurement

// Between two neighbours of an axis, `share` of the way; beyond the last it is `factor`
// times as far.
struct Place {
  std::size_t below = 0;
  double share = 0;
  double factor = 1;
};

template <std::size_t kSize>
Place place_of(const std::array<std::uint32_t, kSize>& axis, std::uint32_t value) {
  const double inside = std::min(value, axis.back());
  const auto above = std::upper_bound(axis.begin() + 1, axis.end() - 1, value);
  const auto below = static_cast<std::size_t>(above - axis.begin()) - 1;
  return {.below = below,
          .share = (inside - axis[below]) / (axis[below + 1] - axis[below]),
          .factor = value / inside};
}

}  // namespace

EncoderCosts::EncoderCosts()
    : EncoderCosts([](std::uint32_t length, std::uint32_t num_texts) {
        return std::optional(kGuessedTokenTime * (kGuessedTokens + double{1} * length * num_texts));
      }) {}

EncoderCosts::EncoderCosts(const Measure& measure) {
  for (std::size_t length = 0; length < kLengths.size(); ++length) {
    for (std::size_t count = 0; count < kCounts.size(); ++count) {
      const auto measured = measure(kLengths[length], kCounts[count]);
      double value = measured.value_or(0);
      double least = kShortest;
      if (count > 0) {
        least = std::max(least, at(length, count - 1));
        if (!measured) value = at(length, count - 1) * kCounts[count] / kCounts[count - 1];
      }
      if (length > 0) {
        least = std::max(least, at(length - 1, count));
        if (!measured && count == 0) value = at(length - 1, count) * kLengths[length] / kLengths[length - 1];
      }
      at(length, count) = std::clamp(value, least, kLongest);
    }
  }
}

std::optional<EncoderCosts> EncoderCosts::from_values(std::span<const double> values) {
  if (values.size() != kPoints) return std::nullopt;
  EncoderCosts costs;
  std::copy(values.begin(), values.end(), costs.values_.begin());
  for (std::size_t length = 0; length < kLengths.size(); ++length) {
    for (std::size_t count = 0; count < kCounts.size(); ++count) {
      const double value = costs.at(length, count);
      const bool is_time = value >= kShortest && value <= kLongest;
      const bool shrinks = (length > 0 && value < costs.at(length - 1, count)) ||
                           (count > 0 && value < costs.at(length, count - 1));
      if (!is_time || shrinks) return std::nullopt;
    }
  }
  return costs;
}

double EncoderCosts::operator()(std::uint32_t length, std::uint32_t num_texts) const {
  const Place row = place_of(kLengths, length), column = place_of(kCounts, num_texts);
  const auto along = [&](std::size_t of_length) {
    const double low = at(of_length, column.below), high = at(of_length, column.below + 1);
    return low + column.share * (high - low);
  };
  const double low = along(row.below), high = along(row.below + 1);
  return (low + row.share * (high - low)) * row.factor * column.factor;
}

void EncoderCosts::learn(std::uint32_t length, std::uint32_t num_texts, double nanoseconds) {
  if (!(nanoseconds > 0)) return;
  num_learnt_ += 1;
  const double factor = std::clamp(nanoseconds / (*this)(length, num_texts), 1 / kMostFactor, kMostFactor);
  const Place row = place_of(kLengths, length), column = place_of(kCounts, num_texts);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    for (const std::size_t j : {std::size_t{0}, std::size_t{1}}) {
      const double weight = (i == 0 ? 1 - row.share : row.share) * (j == 0 ? 1 - column.share : column.share);
      const double value = at(row.below + i, column.below + j);
      set(row.below + i, column.below + j, value * (1 + kFollow * weight * (factor - 1)));
    }
  }
}

// Whatever is smaller in both takes no longer, whatever is larger no less.
void EncoderCosts::set(std::size_t length, std::size_t count, double value) {
  value = std::clamp(value, kShortest, kLongest);
  at(length, count) = value;
  for (std::size_t i = 0; i <= length; ++i)
    for (std::size_t j = 0; j <= count; ++j) at(i, j) = std::min(at(i, j), value);
  for (std::size_t i = length; i < kLengths.size(); ++i)
    for (std::size_t j = count; j < kCounts.size(); ++j) at(i, j) = std::max(at(i, j), value);
}

}  // namespace troupe
