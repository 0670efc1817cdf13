// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/forecast_accuracy.hpp"

#include <algorithm>

namespace troupe {
namespace {

// 1: a is known to be longer, -1: b is, 0: neither.
int order_of(SeenLength a, SeenLength b) {
  if (b.is_whole && a.num_tokens > b.num_tokens) return 1;
  if (a.is_whole && b.num_tokens > a.num_tokens) return -1;
  return 0;
}

int order_of(LengthGuess a, LengthGuess b) {
  return (a.likely > b.likely ? 1 : 0) - (a.likely < b.likely ? 1 : 0);
}

bool shows_all_losses(double quantile, const JudgedAnswer& answer) {
  return std::all_of(answer.guesses.begin(), answer.guesses.end(), [&](const LengthGuess& guess) {
    return pinball_loss(quantile, guess.reserved, answer.length).has_value();
  });
}

}  // namespace

JudgedLooks& JudgedLooks::operator+=(const JudgedLooks& more) {
  num += more.num;
  num_fitted += more.num_fitted;
  loss += more.loss;
  standing_loss += more.standing_loss;
  return *this;
}

void ForecastAccuracy::add(const JudgedAnswer& answer) {
  if (answers_.size() == kMostAnswers) drop_oldest();
  count_pairs(answer, 1);
  if (answer.has_fitted) {
    const Placed place = placed(answer, num_added_);
    by_reserved_.insert(std::lower_bound(by_reserved_.begin(), by_reserved_.end(), place), place);
  }
  if (shows_all_losses(quantile_, answer)) {
    const std::uint32_t length = answer.length.num_tokens;
    compared_.insert(std::upper_bound(compared_.begin(), compared_.end(), length), length);
  }
  answers_.push_back(answer);
  num_added_ += 1;
  add_up();
}

void ForecastAccuracy::drop_oldest() {
  const JudgedAnswer oldest = answers_.front();
  answers_.pop_front();
  count_pairs(oldest, -1);
  if (oldest.has_fitted)
    by_reserved_.erase(std::lower_bound(by_reserved_.begin(), by_reserved_.end(),
                                        placed(oldest, num_added_ - kMostAnswers)));
  if (shows_all_losses(quantile_, oldest))
    compared_.erase(std::lower_bound(compared_.begin(), compared_.end(), oldest.length.num_tokens));
}

ForecastAccuracy::Placed ForecastAccuracy::placed(const JudgedAnswer& answer, std::uint64_t number) const {
  return {.reserved = answer.reserved, .number = number, .has_fitted = answer.has_fitted.value_or(false)};
}

// Adds the pairs that the answer makes with each one that is kept (sign 1), or takes them off (-1).
void ForecastAccuracy::count_pairs(const JudgedAnswer& answer, std::int64_t sign) {
  for (const JudgedAnswer& other : answers_) {
    const int order = order_of(answer.length, other.length);
    if (order == 0) continue;
    num_ordered_ += sign;
    for (std::size_t i = 0; i < kNumLengthStages; ++i)
      sums_[i].concordant += sign * order * order_of(answer.guesses[i], other.guesses[i]);
  }
}

// Anew each time: no error adds up.
void ForecastAccuracy::add_up() {
  for (StageSums& sums : sums_) sums.loss = sums.log_error = 0;
  log_error_ = 0;
  looks_ = {};
  for (const JudgedAnswer& answer : answers_) {
    if (shows_all_losses(quantile_, answer)) add_losses(answer);
    if (answer.has_fitted) add_log_errors(answer);
    looks_ += answer.looks;
  }
}

void ForecastAccuracy::add_losses(const JudgedAnswer& answer) {
  for (std::size_t i = 0; i < kNumLengthStages; ++i)
    sums_[i].loss += pinball_loss(quantile_, answer.guesses[i].reserved, answer.length).value_or(0);
}

void ForecastAccuracy::add_log_errors(const JudgedAnswer& answer) {
  for (std::size_t i = 0; i < kNumLengthStages; ++i)
    sums_[i].log_error += log_error(answer.guesses[i].likely, answer.length);
  log_error_ += log_error(answer.likely, answer.length);
}

double ForecastAccuracy::coverage() const {
  if (by_reserved_.empty()) return 1;
  const auto num_fitted = std::count_if(by_reserved_.begin(), by_reserved_.end(),
                                        [](const Placed& placed) { return placed.has_fitted; });
  return static_cast<double>(num_fitted) / static_cast<double>(by_reserved_.size());
}

double ForecastAccuracy::coverage(std::size_t tenth) const {
  const std::size_t first = by_reserved_.size() * tenth / kNumTenths;
  const std::size_t end = by_reserved_.size() * (tenth + 1) / kNumTenths;
  if (first == end) return 1;
  const auto num_fitted = std::count_if(by_reserved_.begin() + static_cast<std::ptrdiff_t>(first),
                                        by_reserved_.begin() + static_cast<std::ptrdiff_t>(end),
                                        [](const Placed& placed) { return placed.has_fitted; });
  return static_cast<double>(num_fitted) / static_cast<double>(end - first);
}

double ForecastAccuracy::mean_log_error() const {
  return by_reserved_.empty() ? 0 : log_error_ / static_cast<double>(by_reserved_.size());
}

double ForecastAccuracy::mean_loss(LengthStage stage) const {
  if (compared_.empty()) return 0;
  return sums_[static_cast<std::size_t>(stage)].loss / static_cast<double>(compared_.size());
}

double ForecastAccuracy::mean_log_error(LengthStage stage) const {
  if (by_reserved_.empty()) return 0;
  return sums_[static_cast<std::size_t>(stage)].log_error / static_cast<double>(by_reserved_.size());
}

double ForecastAccuracy::tau(LengthStage stage) const {
  if (num_ordered_ == 0) return 0;
  const auto concordant = static_cast<double>(sums_[static_cast<std::size_t>(stage)].concordant);
  return concordant / static_cast<double>(num_ordered_);
}

// One that was cut off counts as if it had ended there, as it does for guesses.
double ForecastAccuracy::constant_loss() const {
  if (compared_.empty()) return 0;
  const auto place = static_cast<std::size_t>(quantile_ * static_cast<double>(compared_.size()));
  const std::uint32_t constant = compared_[std::min(place, compared_.size() - 1)];
  double sum = 0;
  for (const std::uint32_t length : compared_)
    sum += pinball_loss(quantile_, constant, {.num_tokens = length}).value_or(0);
  return sum / static_cast<double>(compared_.size());
}

}  // namespace troupe
