// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_predictor.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

using Stage = LengthPredictor::Stage;

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15U;

// Keys are kept in a file: the same in every process.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kPrime;
  return hash ^ (hash >> 29U);
}

std::array<std::uint64_t, LengthPredictor::kNumKeys> keys_of(const LengthQuestion& question) {
  std::uint64_t tenant = mixed(1, question.tenant.size());
  for (const char letter : question.tenant) tenant = mixed(tenant, static_cast<unsigned char>(letter));
  std::uint64_t beginning = mixed(tenant, 2);
  const std::size_t num_tokens = std::min(question.prompt.size(), LengthPredictor::kBeginningTokens);
  for (const std::int32_t token : question.prompt.first(num_tokens))
    beginning = mixed(beginning, static_cast<std::uint32_t>(token));
  return {0, tenant, beginning};
}

std::uint32_t calibrated(std::uint32_t guess, double calibration, std::uint32_t most) {
  const double reserved = std::ceil(std::exp(calibration) * guess);
  return static_cast<std::uint32_t>(std::clamp(reserved, 1.0, static_cast<double>(most)));
}

// nullopt: it was cut off before that showed.
std::optional<bool> fits(std::uint32_t guess, SeenLength length) {
  if (!length.is_whole && length.num_tokens < guess) return std::nullopt;
  return length.is_whole && length.num_tokens <= guess;
}

// The least, if the answer was cut off.
double log_error(std::uint32_t guess, SeenLength length) {
  const double ratio = std::max(1U, length.num_tokens) / static_cast<double>(std::max(1U, guess));
  return length.is_whole ? std::abs(std::log(ratio)) : std::max(0.0, std::log(ratio));
}

}  // namespace

std::optional<double> pinball_loss(double rank, std::uint32_t guess, SeenLength length) {
  const double difference = static_cast<double>(length.num_tokens) - static_cast<double>(guess);
  if (difference >= 0) return rank * difference;
  if (!length.is_whole) return std::nullopt;
  return (rank - 1) * difference;
}

LengthGuess LengthPredictor::foresee(std::uint64_t answer, const LengthQuestion& question) {
  const std::uint32_t most = std::max(1U, question.max_tokens);
  Awaited awaited{.keys = keys_of(question),
                  .max_tokens = most,
                  .prompt_tokens = static_cast<std::uint32_t>(question.prompt.size())};
  num_questions_ += 1;
  const auto used = static_cast<std::size_t>(best_of(kNumKeys));
  std::uint32_t guess = most, likely = most, likely_used = most;
  for (std::size_t i = 0; i < kNumKeys; ++i) {
    const auto found = known_.find(awaited.keys[i]);
    if (found != known_.end()) found->second.last_used = num_questions_;
    if (found != known_.end() && found->second.lengths.size() >= kFewLengths) {
      guess = std::clamp(found->second.lengths.quantile(quantile_), 1U, most);
      likely = std::clamp(found->second.lengths.quantile(kLikely), 1U, most);
    }
    awaited.guesses[i] = guess;
    if (i == used) likely_used = likely;
  }
  awaited.guesses[static_cast<std::size_t>(Stage::kState)] = guess;
  awaited.at_arrival = calibrated(awaited.guesses[used], calibration_, most);
  awaited.likely = likely_used;
  const LengthGuess result{.reserved = awaited.at_arrival, .likely = likely_used};
  if (awaited_.size() < kMostAwaited) awaited_.insert_or_assign(answer, std::move(awaited));
  return result;
}

// The head learns of every state, and is asked from the first ones on: so is it judged.
std::optional<LengthGuess> LengthPredictor::refine(std::uint64_t answer, std::span<const float> state) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end()) return std::nullopt;
  Awaited& awaited = found->second;
  const std::uint32_t most = awaited.max_tokens;
  auto features = features_.take(state, awaited.prompt_tokens, most);
  if (!features) return std::nullopt;
  awaited.features = *std::move(features);
  if (head_.num_learnt() < kFewStates) return std::nullopt;
  const std::uint32_t guess = std::clamp(head_.quantile(awaited.features, quantile_), 1U, most);
  awaited.guesses[static_cast<std::size_t>(Stage::kState)] = guess;
  awaited.at_prefill = calibrated(guess, refined_calibration_, most);
  awaited.is_refined = stage() == Stage::kState;
  if (!awaited.is_refined) return std::nullopt;
  awaited.likely = std::clamp(head_.quantile(awaited.features, kLikely), 1U, most);
  return LengthGuess{.reserved = std::max(awaited.at_arrival, awaited.at_prefill), .likely = awaited.likely};
}

void LengthPredictor::learn(std::uint64_t answer, SeenLength length) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end()) return;
  const Awaited awaited = std::move(found->second);
  awaited_.erase(found);
  if (length.num_tokens == 0 && !length.is_whole) return;  // it never began
  num_learnt_ += 1;
  judge(awaited, length);
  for (const std::uint64_t key : awaited.keys) add(key, length);
  if (!awaited.features.empty()) head_.learn(awaited.features, length);
}

// An answer that reached max_tokens could not have taken more: its length is known.
void LengthPredictor::judge(const Awaited& awaited, SeenLength length) {
  length.is_whole = length.is_whole || length.num_tokens >= awaited.max_tokens;
  calibrate(calibration_, awaited.at_arrival, length);
  if (awaited.at_prefill > 0) calibrate(refined_calibration_, awaited.at_prefill, length);
  const std::uint32_t guess = awaited.is_refined ? awaited.at_prefill : awaited.at_arrival;
  const auto has_fitted = fits(guess, length);
  if (!has_fitted) return;
  Judged judged{.has_fitted = *has_fitted, .guess = guess, .log_error = log_error(awaited.likely, length)};
  for (std::size_t i = 0; i < kNumStages; ++i)
    judged.losses[i] = pinball_loss(quantile_, awaited.guesses[i], length).value_or(0);
  add(judged);
}

void LengthPredictor::calibrate(double& calibration, std::uint32_t guess, SeenLength length) const {
  const auto has_fitted = fits(guess, length);
  if (!has_fitted) return;
  calibration += kCalibrationStep * ((*has_fitted ? 0.0 : 1.0) - (1 - quantile_));
  calibration = std::clamp(calibration, -kMostCalibration, kMostCalibration);
}

// Summed anew each time: no error adds up.
void LengthPredictor::add(const Judged& judged) {
  if (losses_.size() == kJudgedAnswers) losses_.pop_front();
  losses_.push_back(judged);
  sums_ = {};
  for (const Judged& one : losses_)
    for (std::size_t i = 0; i < kNumStages; ++i) sums_[i] += one.losses[i];
}

void LengthPredictor::add(std::uint64_t key, SeenLength length) {
  if (known_.size() >= kMostKeys && !known_.contains(key)) {
    const auto oldest = std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    });
    known_.erase(oldest);
  }
  Known& known = known_[key];
  known.last_used = std::max(known.last_used, num_questions_);
  known.lengths.add(length);
}

Stage LengthPredictor::stage() const { return best_of(kNumStages); }

Stage LengthPredictor::best_of(std::size_t num_stages) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < num_stages; ++i)
    if (mean_loss(static_cast<Stage>(i)) < mean_loss(static_cast<Stage>(best))) best = i;
  return static_cast<Stage>(best);
}

double LengthPredictor::mean_loss(Stage stage) const {
  if (losses_.empty()) return 0;
  return sums_[static_cast<std::size_t>(stage)] / static_cast<double>(losses_.size());
}

double LengthPredictor::mean_log_error() const {
  if (losses_.empty()) return 0;
  double sum = 0;
  for (const Judged& judged : losses_) sum += judged.log_error;
  return sum / static_cast<double>(losses_.size());
}

double LengthPredictor::coverage(std::size_t tenth) const {
  std::vector<const Judged*> by_size;
  for (const Judged& judged : losses_) by_size.push_back(&judged);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Judged* a, const Judged* b) { return a->guess < b->guess; });
  const std::size_t first = by_size.size() * tenth / kNumTenths;
  const std::size_t end = by_size.size() * (tenth + 1) / kNumTenths;
  if (first == end) return 1;
  const auto num_fitted = std::count_if(by_size.begin() + static_cast<std::ptrdiff_t>(first),
                                        by_size.begin() + static_cast<std::ptrdiff_t>(end),
                                        [](const Judged* one) { return one->has_fitted; });
  return static_cast<double>(num_fitted) / static_cast<double>(end - first);
}

double LengthPredictor::coverage() const {
  if (losses_.empty()) return 1;
  const auto num_fitted =
      std::count_if(losses_.begin(), losses_.end(), [](const Judged& judged) { return judged.has_fitted; });
  return static_cast<double>(num_fitted) / static_cast<double>(losses_.size());
}

}  // namespace troupe
