// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/pass_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {
namespace {

constexpr double kFollow = 0.05;  // share of the newest pass in a mean
// The least share of the greatest possible spread of lengths: below it they are one length, which tells no
// two parts apart.
constexpr double kLeastSpread = 0.01;
// A pass takes no less than this of what was expected. Its end may be heard of late, and that of the next one
// right behind it; a pass that seems to have taken no time would weigh more than all others.
constexpr double kLeastTime = 0.7;
// Passes after which something is expected: the first ones may be many times slower than all others, as
// kernels are loaded and weights are touched.
constexpr std::uint32_t kFirstPasses = 20;

}  // namespace

void PassTime::observe(std::uint32_t num_tokens, std::chrono::nanoseconds time) {
  if (num_tokens == 0 || time.count() <= 0) return;
  const double least =
      num_known_ < kFirstPasses ? 0 : kLeastTime * static_cast<double>(of(num_tokens).count());
  const double n = num_tokens, inverse = 1.0 / std::max(static_cast<double>(time.count()), least);
  const double share = num_known_ == 0 ? 1.0 : kFollow;
  num_known_ = std::min(num_known_ + 1, kFirstPasses);
  const auto follow = [share](double& mean, double value) { mean += share * (value - mean); };
  follow(one_, inverse * inverse);
  follow(token_, n * inverse * inverse);
  follow(token_token_, n * n * inverse * inverse);
  follow(time_, inverse);
  follow(token_time_, n * inverse);
}

double PassTime::spread() const { return one_ * token_token_ - token_ * token_; }

bool PassTime::has_one_length() const { return spread() <= kLeastSpread * one_ * token_token_; }

// Passes of one length are taken to cost by the token: that promises too few tokens for longer ones.
PassTime::Line PassTime::line() const {
  const Line by_token{.per_token = token_time_ / token_token_};
  if (has_one_length()) return by_token;
  const double determinant = spread();
  const double fixed = (time_ * token_token_ - token_time_ * token_) / determinant;
  const double per_token = (token_time_ * one_ - time_ * token_) / determinant;
  if (fixed < 0) return by_token;
  if (per_token < 0) return {.fixed = time_ / one_};
  return {.fixed = fixed, .per_token = per_token};
}

std::chrono::nanoseconds PassTime::of(std::uint64_t num_tokens) const {
  if (num_known_ == 0) return {};
  const Line costs = line();
  return std::chrono::nanoseconds(
      std::llround(costs.fixed + costs.per_token * static_cast<double>(num_tokens)));
}

std::uint32_t PassTime::tokens_within(std::chrono::nanoseconds time) const {
  constexpr auto kAll = std::numeric_limits<std::uint32_t>::max();
  if (num_known_ == 0) return kAll;
  const Line costs = line();
  const double usual = token_time_ / time_;
  const double spare = static_cast<double>(time.count()) - costs.fixed;
  // How much shorter passes are than those of the one length, nobody knows.
  const bool is_unknown = has_one_length() && spare < costs.per_token * usual;
  if (spare <= 0 || is_unknown) return 0;
  const double most = std::min(kMostGrowth * usual, static_cast<double>(kAll));
  return static_cast<std::uint32_t>(spare < costs.per_token * most ? spare / costs.per_token : most);
}

}  // namespace troupe
