// SPDX-License-Identifier: Apache-2.0
// How good guesses at lengths were, over the last answers of known lengths: by stage, and against
// the best constant. Kept as answers come; no question sorts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "policy/lengths/length_guess.hpp"

namespace troupe {

// Looks at an answer while it ran.
struct JudgedLooks {
  std::uint32_t num = 0;
  std::uint32_t num_fitted = 0;
  double loss = 0;           // sum of pinball losses, tokens
  double standing_loss = 0;  // so, too, of the reservation that would stand without them

  JudgedLooks& operator+=(const JudgedLooks& more);
};

struct JudgedAnswer {
  SeenLength length;
  std::array<LengthGuess, kNumLengthStages> guesses = {};  // before they are calibrated
  std::uint32_t reserved = 0;                              // by the last guess before it ran, calibrated
  std::optional<bool> has_fitted = true;                   // that; nothing: it was cut off before it showed
  std::uint32_t likely = 0;                                // so, too
  JudgedLooks looks = {};
};

class ForecastAccuracy {
 public:
  static constexpr std::size_t kMostAnswers = 500;  // the last ones
  static constexpr std::size_t kNumTenths = 10;

  explicit ForecastAccuracy(double quantile) : quantile_(quantile) {}

  // From the next answer on losses are by another quantile, those of the answers before it, too.
  void aim_at(double quantile) { quantile_ = quantile; }
  double quantile() const { return quantile_; }
  void add(const JudgedAnswer& answer);

  const std::deque<JudgedAnswer>& answers() const { return answers_; }  // in order of their ends
  std::size_t size() const { return answers_.size(); }

  // Share of answers that fitted what was reserved, of those that showed it; 1: none yet.
  double coverage() const;
  // So, too, of a tenth of them, by what was reserved: those of the shortest first.
  double coverage(std::size_t tenth) const;
  double mean_log_error() const;  // of likely, over the same answers; 0: none yet

  // A stage's guesses count whether they were used or not. Pinball, tokens; 0: none yet. Over those answers
  // that show what each stage's guess cost: one that was cut off before it was as long as some stage's guess
  // shows only what the shorter guesses cost, and would speak for the longer one whatever it is. Where
  // clients leave, short answers are what is left, and the shortest guess is favoured.
  double mean_loss(LengthStage stage) const;
  double mean_log_error(LengthStage stage) const;
  // Kendall's tau: of pairs of answers of which one is known to be longer, the share that the guesses put in
  // that order less the share that they put in the other; 0: there are none.
  double tau(LengthStage stage) const;
  // So, too, of the one guess for all of these answers that would have cost least, known afterwards.
  double constant_loss() const;
  std::size_t num_compared() const { return compared_.size(); }  // answers in these losses

  // Sums over the answers, each looked at while it ran.
  const JudgedLooks& looks() const { return looks_; }

 private:
  struct Placed {
    std::uint32_t reserved = 0;
    std::uint64_t number = 0;  // of answers in order
    bool has_fitted = true;    // known
    bool operator<(const Placed& other) const {
      return reserved != other.reserved ? reserved < other.reserved : number < other.number;
    }
  };
  struct StageSums {
    double loss = 0, log_error = 0;
    std::int64_t concordant = 0;  // pairs, less discordant ones
  };

  void drop_oldest();
  void count_pairs(const JudgedAnswer& answer, std::int64_t sign);
  void add_up();
  void add_losses(const JudgedAnswer& answer);
  void add_log_errors(const JudgedAnswer& answer);
  Placed placed(const JudgedAnswer& answer, std::uint64_t number) const;

  double quantile_;
  std::deque<JudgedAnswer> answers_;
  std::uint64_t num_added_ = 0;
  std::vector<Placed> by_reserved_;      // sorted; answers that showed if they fitted
  std::vector<std::uint32_t> compared_;  // sorted; lengths of those that show each stage's loss
  std::array<StageSums, kNumLengthStages> sums_ = {};
  std::int64_t num_ordered_ = 0;  // pairs of which one is known to be longer
  double log_error_ = 0;
  JudgedLooks looks_;
};

}  // namespace troupe
