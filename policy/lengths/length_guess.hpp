// SPDX-License-Identifier: Apache-2.0
// Guesses at the lengths of answers, and what they cost once the lengths are known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "policy/lengths/censored_lengths.hpp"

namespace troupe {

// Where a guess comes from (policy/lengths/length_predictor.hpp).
enum class LengthStage : std::uint8_t { kEveryone, kTenant, kBeginning, kEncoder, kState };
inline constexpr std::size_t kNumLengthStages = 5;
// As metrics and reports have them, in the stages' order.
inline constexpr std::array<std::string_view, kNumLengthStages> kLengthStageNames{
    "everyone", "tenant", "beginning", "encoder", "state"};

// Tokens of an answer, from 1 to its max_tokens.
struct LengthGuess {
  std::uint32_t reserved = 0;  // the wanted share of answers has no more
  std::uint32_t likely = 0;    // half are longer
};

// The cost of a guess: `rank` for each token too few, 1 - rank for each too many. The
// least cost, if the answer was cut off; nullopt: not known, for it was shorter.
std::optional<double> pinball_loss(double rank, std::uint32_t guess, SeenLength length);

// nullopt: the answer was cut off before that showed.
std::optional<bool> fits(std::uint32_t guess, SeenLength length);

// The distance of the logarithms; the least, if the answer was cut off.
double log_error(std::uint32_t guess, SeenLength length);

}  // namespace troupe
