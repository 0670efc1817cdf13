// SPDX-License-Identifier: Apache-2.0
// Looks again at an answer while it runs: a head of hazards (policy/lengths/hazard_head.hpp) says of the
// served model's state at its last token how many tokens are still to come. The guess is filtered over the
// answer's looks: the belief of the look before, at first that of the end of its prefill, has the tokens
// taken off that have come since (they are no longer possible ends), and is pooled with the new one.
//
// A head of its own, with means and spreads of its own: a prompt's last token is a template's, and
// its state is unlike those of an answer's tokens. It learns at a few of each answer's looks, evenly
// spread, so that a long answer costs no more than a short one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/lengths/calibration.hpp"
#include "policy/lengths/forecast_accuracy.hpp"
#include "policy/lengths/length_belief.hpp"
#include "policy/lengths/state_head.hpp"

namespace troupe {

// All looks at one answer.
struct AnswerLooks {
  struct Look {
    std::uint32_t at = 0;        // tokens that it had
    CalibratedGuess rest = {};   // of tokens still to come
    std::uint32_t standing = 0;  // of all its tokens: set aside without this look
    std::uint32_t told = 0;      // tokens behind it, as the head knows
    std::vector<float> features = {};
  };
  std::uint32_t at = 0;  // the last one; 0: none yet
  std::uint32_t num = 0, stride = 1;
  std::optional<LengthBelief> rest;  // of the tokens behind `at`
  std::vector<Look> kept;            // every stride-th
};

class RunningHead {
 public:
  static constexpr std::size_t kKeptLooks = 4;    // at an answer
  static constexpr std::uint64_t kFewLooks = 64;  // of ended answers; with fewer it has no guess

  struct Sight {
    std::span<const float> state;
    AnswerSizes sizes;           // `most` tokens are still to come
    std::uint32_t standing = 0;  // as in Look
  };
  // `reserved` is calibrated.
  struct Guess {
    std::uint32_t reserved = 0, likely = 0;  // tokens still to come
  };

  explicit RunningHead(double quantile) : quantile_(quantile), learnt_(quantile) {}

  // From now on this quantile of the rest is guessed.
  void aim_at(double quantile);

  // at_prefill: the belief in the whole length, if there is one. nullopt: the state is none, was seen
  // before, or too little is known.
  std::optional<Guess> look(AnswerLooks& looks, const Sight& sight, const LengthBelief* at_prefill);

  // The answer has so many tokens, and goes on.
  void learn_running(std::uint64_t answer, AnswerLooks& looks, std::uint32_t num_tokens);
  // It has ended; length: as it is judged by, learnt: as it is learnt.
  JudgedLooks learn(std::uint64_t answer, const AnswerLooks& looks, SeenLength length, SeenLength learnt);

  std::uint64_t num_learnt() const { return learnt_.hazards.num_learnt(); }

  const StateHead& learnt() const { return learnt_; }
  StateHead& learnt() { return learnt_; }

 private:
  static void keep(AnswerLooks& looks, AnswerLooks::Look look);

  double quantile_;
  StateHead learnt_;
};

}  // namespace troupe
