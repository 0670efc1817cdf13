// SPDX-License-Identifier: Apache-2.0
// A request at the end of its prefill, or an answer at one of its tokens, as a head of lengths sees it: the
// served model's state at the last token, folded to few numbers by signs that are the same in every process,
// each in units of its usual spread; and the request's own sizes.
//
// Means and spreads are those of the first states, and stay: what was learnt of them holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

struct AnswerSizes {  // tokens
  std::uint32_t prompt = 0;
  std::uint32_t most = 0;       // that may come
  std::uint32_t generated = 0;  // so far
};

class StateFeatures {
 public:
  static constexpr std::size_t kFolded = 128;
  static constexpr std::size_t kSize = kFolded + 4;  // and the sizes, and 1
  static constexpr std::uint32_t kMeasuredStates = 2048;
  static constexpr float kMostSpreads = 4;  // a number further off counts as that far

  // [kSize], the folded part of length about 1. nullopt: the state has a number that is none.
  std::optional<std::vector<float>> take(std::span<const float> state, const AnswerSizes& sizes);

  // All that it knows, and back; false: that is not what numbers() gave.
  std::vector<float> numbers() const;
  bool restore(std::span<const float> numbers);

 private:
  using Folded = std::array<float, kFolded>;

  static Folded fold(std::span<const float> state);
  void measure(const Folded& folded);

  std::uint32_t num_measured_ = 0;
  Folded means_ = {}, squares_ = {};  // squares: sums of squared distances from the mean
};

}  // namespace troupe
