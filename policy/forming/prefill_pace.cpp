// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/prefill_pace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/costs/rounded_time.hpp"

namespace troupe {
namespace {

constexpr double kDecodeRate = 0.1;     // of a new decode-only time
constexpr double kPromptFading = 0.95;  // of older iterations with prompts, by each new one
// Pairs that cost more than a token of a context so long are noise, not attention.
constexpr double kUsualPairs = 1000.0;

}  // namespace

void PrefillPace::observe(const IterationShape& shape, std::uint32_t num_decodes,
                          std::chrono::nanoseconds time) {
  // Clocks of a device and of its scheduler may disagree by more than an iteration took.
  const double nanoseconds = std::max(0.0, static_cast<double>(time.count()));
  const auto tokens = static_cast<double>(shape.num_tokens - std::min(shape.num_tokens, num_decodes));
  if (tokens == 0) {
    decode_time_ =
        decode_time_ == 0 ? nanoseconds : decode_time_ + kDecodeRate * (nanoseconds - decode_time_);
    return;
  }
  const double pairs = static_cast<double>(shape.prefill_pairs) / kUsualPairs;
  const double beyond = std::max(0.0, nanoseconds - decode_time_);
  for (double* sum : {&tokens_tokens_, &tokens_pairs_, &pairs_pairs_, &tokens_time_, &pairs_time_})
    *sum *= kPromptFading;
  tokens_tokens_ += tokens * tokens;
  tokens_pairs_ += tokens * pairs;
  pairs_pairs_ += pairs * pairs;
  tokens_time_ += tokens * beyond;
  pairs_time_ += pairs * beyond;
}

// Least squares, nothing negative: where the two can't be told apart tokens take all.
PrefillPace::Costs PrefillPace::costs() const {
  const Costs tokens_alone{.per_token = tokens_time_ / tokens_tokens_};
  const double determinant = tokens_tokens_ * pairs_pairs_ - tokens_pairs_ * tokens_pairs_;
  if (determinant <= 1e-6 * tokens_tokens_ * pairs_pairs_) return tokens_alone;
  const double per_token = (tokens_time_ * pairs_pairs_ - pairs_time_ * tokens_pairs_) / determinant;
  const double per_pair = (pairs_time_ * tokens_tokens_ - tokens_time_ * tokens_pairs_) / determinant;
  if (per_pair < 0) return tokens_alone;
  if (per_token < 0) return {.per_pair = pairs_time_ / pairs_pairs_ / kUsualPairs};
  return {.per_token = per_token, .per_pair = per_pair / kUsualPairs};
}

std::uint32_t PrefillPace::max_prompt_tokens(double factor, std::uint32_t context) const {
  if (decode_time_ == 0) return std::numeric_limits<std::uint32_t>::max();
  return tokens_within((factor - 1) * decode_time_, context);
}

std::uint32_t PrefillPace::prompt_tokens_within(std::chrono::nanoseconds time, std::uint32_t context) const {
  return tokens_within(static_cast<double>(time.count()), context);
}

std::chrono::nanoseconds PrefillPace::prompt_time(std::uint32_t num_tokens, std::uint32_t context) const {
  if (tokens_tokens_ == 0) return {};
  const Costs cost = costs();
  const double tokens = num_tokens;
  return rounded_time(tokens * (cost.per_token + cost.per_pair * (context + tokens / 2)));
}

std::uint32_t PrefillPace::tokens_within(double spare, std::uint32_t context) const {
  constexpr auto kAll = std::numeric_limits<std::uint32_t>::max();
  if (tokens_tokens_ == 0) return kAll;
  const Costs cost = costs();
  // n tokens behind c cost per_token n + per_pair (c n + n^2 / 2).
  const double linear = cost.per_token + cost.per_pair * context;
  if (linear + cost.per_pair <= 0) return kAll;
  const double most = cost.per_pair == 0
                          ? spare / linear
                          : (std::sqrt(linear * linear + 2 * cost.per_pair * spare) - linear) / cost.per_pair;
  if (most >= static_cast<double>(kAll)) return kAll;
  return std::max(kFewestTokens, static_cast<std::uint32_t>(most));
}

}  // namespace troupe
