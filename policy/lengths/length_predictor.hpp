// SPDX-License-Identifier: Apache-2.0
// Foresees how long answers will be, from how long others were. Stages, each knowing
// more of the request than the one before:
//
//   kEveryone   the last answers of all
//   kTenant     of the same tenant
//   kBeginning  of the same tenant's prompts with the same beginning, which is an
//               application's system prompt
//   kState      what the served model's own state says at the end of the prefill
//               (policy/lengths/hazard_head.hpp), if its device hands it out
//
// Each stage guesses for every request; where it has too few answers, or no state has come,
// as the stage before.
// A stage's guesses are used while their pinball loss over the last answers is less than
// that of all before it, so one that misleads is switched off by what it cost.
//
// The quantile that is reserved is calibrated: whatever the stages do, in the long run a
// share `quantile` of answers fits its reservation (conformal control: the guess is
// multiplied by a factor that grows with each answer that did not fit and shrinks with
// each that did). Guesses at arrival have one factor, those at the end of the prefill another. An
// answer that was cut off says nothing where it was shorter than its guess, and that it would have
// been longer where it was not.
//
// A value; one caller at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/lengths/censored_lengths.hpp"
#include "policy/lengths/hazard_head.hpp"
#include "policy/lengths/state_features.hpp"

namespace troupe {

// A request at its arrival.
struct LengthQuestion {
  std::string_view tenant;
  std::span<const std::int32_t> prompt;
  std::uint32_t max_tokens = 0;  // of the answer
};

// Tokens of its answer, from 1 to max_tokens.
struct LengthGuess {
  std::uint32_t reserved = 0;
  std::uint32_t likely = 0;  // half are longer
};

class LengthPredictor {
 public:
  enum class Stage : std::uint8_t { kEveryone, kTenant, kBeginning, kState };
  static constexpr std::size_t kNumStages = 4;
  static constexpr std::size_t kNumKeys = 3;           // of the stages that know a request at its arrival
  static constexpr std::size_t kFewLengths = 8;        // of a key; with fewer it has no guess
  static constexpr std::size_t kFewStates = 32;        // so, too, for kState
  static constexpr std::size_t kBeginningTokens = 32;  // of a prompt
  static constexpr std::size_t kJudgedAnswers = 500;   // the last ones, by which stages are judged
  static constexpr std::size_t kMostKeys = 1024;       // the one unused for longest goes
  static constexpr std::size_t kMostAwaited = 65536;   // answers; beyond, none is learnt from
  static constexpr double kCalibrationStep = 0.05;     // of the factor's logarithm
  static constexpr double kMostCalibration = 3;        // so, too: e^3 is 20 times
  static constexpr double kLikely = 0.5;
  static constexpr std::size_t kNumTenths = 10;

  explicit LengthPredictor(double quantile = 0.6) : quantile_(quantile) {}

  // `answer` names it until learn() or forget().
  LengthGuess foresee(std::uint64_t answer, const LengthQuestion& question);
  // At the end of its prefill: the served model's state at the prompt's last token. Nothing: the
  // guess stays. A reservation only grows, so more of them fit than is asked for.
  std::optional<LengthGuess> refine(std::uint64_t answer, std::span<const float> state);
  // The answer has ended, or was cut off, with so many tokens. Unknown ones are ignored.
  void learn(std::uint64_t answer, SeenLength length);

  Stage stage() const;                  // its guesses are used
  double mean_loss(Stage stage) const;  // tokens, over the last answers; 0: none yet
  std::size_t num_judged() const { return losses_.size(); }
  double coverage() const;  // share of the last answers that fitted their last guess; 1: none yet
  // So, too, of a tenth of them, by that guess: those of the shortest first.
  double coverage(std::size_t tenth) const;
  // Mean distance of likely from real lengths, of logarithms, over the last answers; 0: none yet.
  double mean_log_error() const;
  double calibration() const { return calibration_; }
  std::size_t num_awaited() const { return awaited_.size(); }
  std::uint64_t num_learnt() const { return num_learnt_; }
  std::uint64_t num_states_learnt() const { return head_.num_learnt(); }

  // All that was learnt, as text; nullopt: it is not what encode() wrote, or is damaged.
  std::string encode() const;
  static std::optional<LengthPredictor> decode(std::string_view text, double quantile);

 private:
  using Losses = std::array<double, kNumStages>;
  struct Known {
    CensoredLengths lengths;
    std::uint64_t last_used = 0;  // count of questions
  };
  struct Awaited {
    std::array<std::uint64_t, kNumKeys> keys = {};
    std::array<std::uint32_t, kNumStages> guesses = {};
    std::uint32_t at_arrival = 0, at_prefill = 0;  // calibrated guesses; at_prefill 0: there is none
    std::uint32_t likely = 0, max_tokens = 0, prompt_tokens = 0;
    bool is_refined = false;           // at_prefill is used
    std::vector<float> features = {};  // empty: no state has come
  };
  struct Judged {
    Losses losses = {};
    bool has_fitted = true;
    std::uint32_t guess = 0;  // the last one, calibrated
    double log_error = 0;
  };

  Stage best_of(std::size_t num_stages) const;
  void calibrate(double& calibration, std::uint32_t guess, SeenLength length) const;
  void judge(const Awaited& awaited, SeenLength length);
  void add(std::uint64_t key, SeenLength length);
  void add(const Judged& judged);
  bool take_line(std::span<const std::string_view> words);
  bool take_judged(std::span<const std::string_view> words);

  double quantile_;
  double calibration_ = 0, refined_calibration_ = 0;  // logarithms of the factors
  std::unordered_map<std::uint64_t, Known> known_;    // by key
  std::unordered_map<std::uint64_t, Awaited> awaited_;
  StateFeatures features_;
  HazardHead head_{StateFeatures::kSize};
  std::deque<Judged> losses_;
  Losses sums_ = {};  // of losses_
  std::uint64_t num_questions_ = 0, num_learnt_ = 0;
};

// The cost of a guess: `rank` for each token too few, 1 - rank for each too many. The
// least cost, if the answer was cut off; nullopt: not known, for it was shorter.
std::optional<double> pinball_loss(double rank, std::uint32_t guess, SeenLength length);

}  // namespace troupe
