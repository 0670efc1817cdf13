// SPDX-License-Identifier: Apache-2.0
// Foresees how long answers will be, from how long others were. Stages, each knowing
// more of the request than the one before:
//
//   kEveryone   the last answers of all
//   kTenant     of the same tenant
//   kBeginning  of the same tenant's prompts with the same beginning, which is an
//               application's system prompt
//   kEncoder    what an encoder's vector of the prompt's end says (policy/lengths/hazard_head.hpp), if
//               one is asked and its vector comes while the request waits
//   kState      so, too, the served model's own state at the end of the prefill, if its device hands
//               it out
//
// Each stage guesses for every request; where it has too few answers, or no vector or state has come,
// as the stage before.
// A stage's guesses are used while their pinball loss over the last answers is less than
// that of all before it, so one that misleads is switched off by what it cost. So is the look at an
// answer that runs (policy/lengths/running_head.hpp), which is used while it costs less than the
// reservation that would stand without it, doubled wherever it was too little.
//
// The quantile that is reserved is calibrated (policy/lengths/calibration.hpp): whatever the stages do, in
// the long run a share `quantile` of answers fits its reservation, of the short guesses as of the
// long ones. Guesses at arrival, by a vector, at the end of the prefill and of answers that run have a
// calibration each. An answer that was cut off says nothing where it was shorter than its guess, and that it
// would have been longer where it was not. One that runs is learnt of as one that was cut off where it is.
//
// A value; one caller at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/lengths/calibration.hpp"
#include "policy/lengths/censored_lengths.hpp"
#include "policy/lengths/forecast_accuracy.hpp"
#include "policy/lengths/length_belief.hpp"
#include "policy/lengths/length_guess.hpp"
#include "policy/lengths/reserved_quantile.hpp"
#include "policy/lengths/running_head.hpp"
#include "policy/lengths/state_head.hpp"

namespace troupe {

// A request at its arrival.
struct LengthQuestion {
  std::string_view tenant;
  std::span<const std::int32_t> prompt;
  std::uint32_t max_tokens = 0;  // of the answer
};

// An answer at its last token, where it is looked at.
struct LookPlace {
  std::uint32_t num_generated = 0;  // tokens
  std::uint32_t page_size = 0;      // so, too: its reservation is reported so far ahead of its end
};

class LengthPredictor {
 public:
  using Stage = LengthStage;
  static constexpr std::size_t kNumStages = kNumLengthStages;
  static constexpr std::size_t kNumKeys = 3;           // of the stages that know a request at its arrival
  static constexpr std::size_t kFewLengths = 8;        // of a key; with fewer it has no guess
  static constexpr std::size_t kFewStates = 32;        // so, too, for kEncoder and kState
  static constexpr std::size_t kBeginningTokens = 32;  // of a prompt
  static constexpr std::size_t kJudgedAnswers = ForecastAccuracy::kMostAnswers;  // by which stages are judged
  static constexpr std::size_t kMostKeys = 1024;      // the one unused for longest goes
  static constexpr std::size_t kMostAwaited = 65536;  // answers; beyond, none is learnt from
  static constexpr std::uint32_t kFewLooks = 32;      // at the judged answers; with fewer none is used
  static constexpr double kLikely = 0.5;
  static constexpr std::size_t kNumTenths = ForecastAccuracy::kNumTenths;

  // quantile: of an answer's forecast that is set aside; 0: as costs say
  // (policy/lengths/reserved_quantile.hpp).
  explicit LengthPredictor(double quantile = 0.6);

  // `answer` names it until learn() or forget().
  LengthGuess foresee(std::uint64_t answer, const LengthQuestion& question);
  // While it waits, once: an encoder's vector of its prompt, by which foresee() guesses from then on, too.
  // Nothing: the guess stays, or it runs already, and the vector is only learnt from.
  std::optional<LengthGuess> read(std::uint64_t answer, std::span<const float> vector);
  bool lacks_vector(std::uint64_t answer) const;  // it is awaited, and none has come
  // At the end of its prefill: the served model's state at the prompt's last token. Nothing: the
  // guess stays. A reservation only grows, so more of them fit than is asked for.
  std::optional<LengthGuess> refine(std::uint64_t answer, std::span<const float> state);
  // While it runs. The guess is of all its tokens, and less than the one before or more. Nothing: what is
  // reserved stays.
  std::optional<LengthGuess> look(std::uint64_t answer, std::span<const float> state, const LookPlace& place);
  // It has so many tokens and goes on.
  void note_running(std::uint64_t answer, std::uint32_t num_generated);
  // The answer has ended, or was cut off, with so many tokens. Unknown ones are ignored.
  void learn(std::uint64_t answer, SeenLength length, const ReservationCosts& costs = {});

  double quantile() const { return quantile_.value(); }
  Stage stage() const;  // its guesses are used
  bool uses_looks() const;
  const ForecastAccuracy& accuracy() const { return accuracy_; }
  std::size_t num_awaited() const { return awaited_.size(); }
  std::uint64_t num_learnt() const { return num_learnt_; }
  std::uint64_t num_vectors_learnt() const { return reading_.hazards.num_learnt(); }
  std::uint64_t num_states_learnt() const { return at_prefill_.hazards.num_learnt(); }
  std::uint64_t num_looks_learnt() const { return running_.num_learnt(); }

  // All that was learnt, as text; nullopt: it is not what encode() wrote for this model, or is
  // damaged. model: a number that tells it from models that may have other states. encoder: so, too, of
  // the one that gives vectors, nullopt: there is none, or it is not known; what was learnt of
  // another's is forgotten.
  std::string encode(std::uint64_t model, std::optional<std::uint64_t> encoder = std::nullopt) const;
  static std::optional<LengthPredictor> decode(std::string_view text, double quantile, std::uint64_t model,
                                               std::optional<std::uint64_t> encoder = std::nullopt);

 private:
  struct Known {
    CensoredLengths lengths;
    std::uint64_t last_used = 0;  // count of questions
  };
  struct Awaited {
    std::array<std::uint64_t, kNumKeys> keys = {};
    std::array<LengthGuess, kNumStages> guesses = {};
    CalibratedGuess at_arrival = {}, by_vector = {}, at_prefill = {};  // of these
    std::uint32_t likely = 0, max_tokens = 0, prompt_tokens = 0;
    std::uint32_t num_running = 0;            // tokens, as it was told
    bool is_read = false;                     // by_vector is used in place of at_arrival
    bool is_refined = false;                  // at_prefill is used in place of both
    std::vector<float> vector = {};           // features of its prompt's; empty: none has come
    std::vector<float> features = {};         // empty: no state has come
    std::optional<LengthBelief> belief = {};  // at the end of the prefill
    AnswerLooks looks = {};

    bool runs() const { return num_running > 0 || !features.empty(); }
    std::uint32_t reserved_waiting() const { return (is_read ? by_vector : at_arrival).reserved; }
    std::uint32_t reserved() const { return is_refined ? at_prefill.reserved : reserved_waiting(); }
    std::uint32_t standing(const LookPlace& place) const;
  };

  Stage best_of(std::size_t num_stages) const;
  void guess_by_vector(Awaited& awaited) const;
  void teach(const Awaited& awaited, const HazardHead::Answer& seen);
  void forget_encoder();
  void aim(const Awaited& awaited, SeenLength length, const ReservationCosts& costs);
  void judge(std::uint64_t answer, const Awaited& awaited, SeenLength length);
  void run_on(std::uint64_t answer, Awaited& awaited, std::uint32_t num_tokens);
  Known& known_of(std::uint64_t key);
  bool take_line(std::span<const std::string_view> words);
  bool take_judged(std::span<const std::string_view> words);

  ReservedQuantile quantile_;
  Calibration calibration_;  // at arrival
  StateHead reading_;        // of vectors
  StateHead at_prefill_;
  RunningHead running_;
  std::unordered_map<std::uint64_t, Known> known_;  // by key
  std::unordered_map<std::uint64_t, Awaited> awaited_;
  ForecastAccuracy accuracy_;
  std::uint64_t num_questions_ = 0, num_learnt_ = 0;
};

}  // namespace troupe
