// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/hazard_head.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/lengths/length_bins.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;

}  // namespace

HazardHead::HazardHead(std::size_t num_features)
    : num_features_(num_features),
      weights_(kNumLengthBins * num_features, 0.0F),
      steps_(kNumLengthBins * num_features, 1.0F) {}

float HazardHead::hazard(std::size_t bin, std::span<const float> features) const {
  const float* weights = weights_.data() + bin * num_features_;
  float sum = -2;  // one in eight ends in a bin of which nothing is known
  for (std::size_t i = 0; i < num_features_; ++i) sum += weights[i] * features[i];
  return 1 / (1 + std::exp(-sum));
}

LengthBelief HazardHead::belief(std::span<const float> features) const {
  LengthBelief::Shares shares = {};
  double left = 1;  // share of answers that got here
  for (std::size_t bin = 0; bin + 1 < kNumLengthBins; ++bin) {
    shares[bin] = left * hazard(bin, features);
    left -= shares[bin];
  }
  shares.back() = left;
  return LengthBelief(shares);
}

void HazardHead::learn(std::span<const float> features, const Answer& answer) {
  step(features, answer.length, answer.told > 0 ? length_bin(answer.told) : 0);
  if (!answer.runs) {
    num_learnt_ += 1;
    step_again();
  }
  keep(features, answer);
}

void HazardHead::step_again() {
  const std::size_t num_kept = ended_.size() + running_.size();
  for (std::uint64_t i = 0; i < std::min(kSteppedAgain, num_kept); ++i) {
    const std::uint64_t place = (num_learnt_ * kSteppedAgain + i) * kGolden >> 32U;
    const Kept& again = kept_at(place % num_kept);
    step(again.features, again.length);
  }
}

const HazardHead::Kept& HazardHead::kept_at(std::size_t place) const {
  return place < ended_.size() ? ended_[place] : running_[place - ended_.size()];
}

// One that is told of again keeps its place while it runs.
void HazardHead::keep(std::span<const float> features, const Answer& answer) {
  const auto found = answer.told == 0 ? running_.end()
                                      : std::find_if(running_.begin(), running_.end(),
                                                     [&](const Kept& kept) { return kept.id == answer.id; });
  if (answer.runs && found != running_.end()) {
    found->length = answer.length;
    return;
  }
  if (found != running_.end()) running_.erase(found);
  Kept kept{.id = answer.id, .features = {features.begin(), features.end()}, .length = answer.length};
  if (answer.runs) {
    put(running_, kKeptRunning, std::move(kept));
  } else {
    put(ended_, kKeptAnswers, std::move(kept));
  }
}

// In place of the oldest, if there are so many.
void HazardHead::put(std::deque<Kept>& among, std::size_t most, Kept kept) {
  if (among.size() == most) among.pop_front();
  among.push_back(std::move(kept));
}

void HazardHead::step(std::span<const float> features, SeenLength length, std::size_t first_bin) {
  const std::size_t last = length_bin(length.num_tokens);
  for (std::size_t bin = first_bin; bin < last; ++bin) step_bin(bin, features, 0);
  if (length.is_whole) step_bin(last, features, 1);
}

void HazardHead::step_bin(std::size_t bin, std::span<const float> features, float wanted) {
  const float error = hazard(bin, features) - wanted;
  float* weights = weights_.data() + bin * num_features_;
  float* steps = steps_.data() + bin * num_features_;
  for (std::size_t i = 0; i < num_features_; ++i) {
    const float gradient = error * features[i];
    steps[i] = std::min(kFading * steps[i] + gradient * gradient, kMostMemory);
    const float change = kStep * gradient / std::sqrt(steps[i] + 1e-6F);
    weights[i] =
        std::clamp(weights[i] - std::clamp(change, -kMostStep, kMostStep), -kMostWeight, kMostWeight);
  }
}

std::vector<float> HazardHead::numbers() const {
  std::vector<float> numbers = weights_;
  numbers.insert(numbers.end(), steps_.begin(), steps_.end());
  return numbers;
}

bool HazardHead::restore(std::uint64_t num_learnt, std::span<const float> numbers) {
  if (numbers.size() != weights_.size() + steps_.size()) return false;
  const auto weights = numbers.first(weights_.size()), steps = numbers.subspan(weights_.size());
  if (std::any_of(weights.begin(), weights.end(), [](float w) { return !(std::abs(w) <= kMostWeight); }))
    return false;
  if (std::any_of(steps.begin(), steps.end(), [](float s) { return !(s >= 0 && s <= kMostMemory); }))
    return false;
  num_learnt_ = num_learnt;
  std::copy(weights.begin(), weights.end(), weights_.begin());
  std::copy(steps.begin(), steps.end(), steps_.begin());
  return true;
}

}  // namespace troupe
