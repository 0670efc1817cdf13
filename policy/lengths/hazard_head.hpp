// SPDX-License-Identifier: Apache-2.0
// A small model of lengths that learns while it is asked: for each bin of lengths
// (policy/lengths/length_bins.hpp) the chance that an answer which got there ends there, a logistic
// function of the request's features. An answer that was cut off says of the bins before that
// it went on, and of its own nothing; no length is made up for it. So does one that runs, which is told
// of as it grows.
//
// Steps by AdaGrad with a memory that fades, so that it follows a drift. Each answer is a step,
// and a few of the last ones are stepped again, in an order without dice. Steps and weights are
// bounded: whatever it is told, its guesses are numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "policy/lengths/censored_lengths.hpp"
#include "policy/lengths/length_belief.hpp"

namespace troupe {

class HazardHead {
 public:
  static constexpr std::size_t kKeptAnswers = 512;  // that have ended, to be stepped again
  static constexpr std::size_t kKeptRunning = 128;  // so, too, of those that run: beside them, not in place
  static constexpr std::size_t kSteppedAgain = 8;   // with each answer
  static constexpr float kStep = 0.5F;
  static constexpr float kMostStep = 0.5F;     // of a weight
  static constexpr float kMostWeight = 20.0F;  // so, too
  static constexpr float kFading = 0.999F;     // of the memory of steps
  static constexpr float kMostMemory = 1e5F;   // of it: of features of at most 10 it is never more

  explicit HazardHead(std::size_t num_features);

  struct Answer {
    std::uint64_t id = 0;    // the same each time
    SeenLength length;       // so far, and not whole, while it runs
    std::uint32_t told = 0;  // tokens when it was told of last; 0: this is the first time
    bool runs = false;
  };

  LengthBelief belief(std::span<const float> features) const;
  std::uint32_t quantile(std::span<const float> features, double rank) const {
    return belief(features).quantile(rank);
  }
  // Each bin of an answer is learnt once, however often it is told of.
  void learn(std::span<const float> features, const Answer& answer);
  // Answers that have ended.
  std::uint64_t num_learnt() const { return num_learnt_; }

  // All that it knows but the kept answers, and back; false: that is not what numbers() gave.
  std::vector<float> numbers() const;
  bool restore(std::uint64_t num_learnt, std::span<const float> numbers);

 private:
  struct Kept {
    std::uint64_t id = 0;
    std::vector<float> features;
    SeenLength length;
  };

  float hazard(std::size_t bin, std::span<const float> features) const;
  void step(std::span<const float> features, SeenLength length, std::size_t first_bin = 0);
  void step_again();
  const Kept& kept_at(std::size_t place) const;
  void keep(std::span<const float> features, const Answer& answer);
  static void put(std::deque<Kept>& among, std::size_t most, Kept kept);
  void step_bin(std::size_t bin, std::span<const float> features, float wanted);

  std::size_t num_features_;
  std::vector<float> weights_;  // [kNumLengthBins, num_features]
  std::vector<float> steps_;    // so, too: of squared gradients
  std::deque<Kept> ended_, running_;
  std::uint64_t num_learnt_ = 0;
};

}  // namespace troupe
