// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/state_features.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr float kMostFolded = 1e15F;  // beyond, squares would be no numbers; NaN is beyond, too
// A spread of nothing divides by no less.
constexpr float kLeastVariance = 1e-12F;

float size_of(std::uint32_t num_tokens) { return std::log2(1.0F + static_cast<float>(num_tokens)) / 16; }

// Every number of a state of up to kFolded has a place of its own; beyond, those of a place add up
// under signs, which keeps distances (feature hashing).
std::uint64_t mixed(std::uint64_t value) {
  value = (value + 1) * 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 31U)) * 0xBF58476D1CE4E5B9U;
  return value ^ (value >> 29U);
}

}  // namespace

std::optional<std::vector<float>> StateFeatures::take(std::span<const float> state,
                                                      const AnswerSizes& sizes) {
  const Folded folded = fold(state);
  if (!std::all_of(folded.begin(), folded.end(), [](float number) { return std::abs(number) < kMostFolded; }))
    return std::nullopt;
  if (num_measured_ < kMeasuredStates) measure(folded);
  const float unit = 1 / std::sqrt(static_cast<float>(kFolded));
  std::vector<float> features;
  features.reserve(kSize);
  for (std::size_t i = 0; i < kFolded; ++i) {
    const float variance = std::max(kLeastVariance, squares_[i] / static_cast<float>(num_measured_));
    const float spreads = (folded[i] - means_[i]) / std::sqrt(variance);
    features.push_back(unit * std::clamp(spreads, -kMostSpreads, kMostSpreads));
  }
  for (const std::uint32_t size : {sizes.prompt, sizes.most, sizes.generated})
    features.push_back(size_of(size));
  features.push_back(1);
  return features;
}

StateFeatures::Folded StateFeatures::fold(std::span<const float> state) {
  Folded folded = {};
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::uint64_t hash = mixed(i);
    const std::size_t place = state.size() <= kFolded ? i : hash % kFolded;
    folded[place] += (hash >> 63U) != 0 ? state[i] : -state[i];
  }
  return folded;
}

void StateFeatures::measure(const Folded& folded) {
  num_measured_ += 1;
  for (std::size_t i = 0; i < kFolded; ++i) {
    const float before = folded[i] - means_[i];
    means_[i] += before / static_cast<float>(num_measured_);
    squares_[i] += before * (folded[i] - means_[i]);
  }
}

std::vector<float> StateFeatures::numbers() const {
  std::vector<float> numbers = {static_cast<float>(num_measured_)};
  numbers.insert(numbers.end(), means_.begin(), means_.end());
  numbers.insert(numbers.end(), squares_.begin(), squares_.end());
  return numbers;
}

bool StateFeatures::restore(std::span<const float> numbers) {
  if (numbers.size() != 1 + 2 * kFolded) return false;
  const auto means = numbers.subspan(1, kFolded), squares = numbers.subspan(1 + kFolded);
  const float count = numbers.front();
  if (!(count >= 0 && count <= static_cast<float>(kMeasuredStates)) || count != std::floor(count))
    return false;
  const auto is_mean = [](float mean) { return std::abs(mean) <= kMostFolded; };
  // Two means within kMostFolded differ by at most twice it; each example adds that squared, and rounding.
  const float most_square = count * 4.1F * kMostFolded * kMostFolded;
  const auto is_square = [&](float square) { return square >= 0 && square <= most_square; };
  if (!std::all_of(means.begin(), means.end(), is_mean)) return false;
  if (!std::all_of(squares.begin(), squares.end(), is_square)) return false;
  num_measured_ = static_cast<std::uint32_t>(count);
  std::copy(means.begin(), means.end(), means_.begin());
  std::copy(squares.begin(), squares.end(), squares_.begin());
  return true;
}

}  // namespace troupe
