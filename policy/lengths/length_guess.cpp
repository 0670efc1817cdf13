// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_guess.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

std::optional<double> pinball_loss(double rank, std::uint32_t guess, SeenLength length) {
  const double difference = static_cast<double>(length.num_tokens) - static_cast<double>(guess);
  if (difference >= 0) return rank * difference;
  if (!length.is_whole) return std::nullopt;
  return (rank - 1) * difference;
}

std::optional<bool> fits(std::uint32_t guess, SeenLength length) {
  if (!length.is_whole && length.num_tokens < guess) return std::nullopt;
  return length.is_whole && length.num_tokens <= guess;
}

double log_error(std::uint32_t guess, SeenLength length) {
  const double ratio = std::max(1U, length.num_tokens) / static_cast<double>(std::max(1U, guess));
  return length.is_whole ? std::abs(std::log(ratio)) : std::max(0.0, std::log(ratio));
}

}  // namespace troupe
