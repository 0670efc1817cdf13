// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/forecast_accuracy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace troupe {
namespace {

JudgedAnswer any_answer(std::mt19937_64& random) {
  const auto draw = [&] { return static_cast<std::uint32_t>(1 + random() % 40); };
  JudgedAnswer answer{.length = {.num_tokens = draw(), .is_whole = random() % 5 != 0},
                      .reserved = draw(),
                      .likely = draw(),
                      .looks = {.num = 2, .num_fitted = 1, .loss = 3, .standing_loss = 4}};
  for (LengthGuess& guess : answer.guesses) guess = {.reserved = draw(), .likely = draw()};
  answer.has_fitted = random() % 3 != 0;
  if (!answer.length.is_whole && random() % 2 == 0) answer.has_fitted.reset();
  return answer;
}

// Kendall's tau, summed over all pairs.
double plain_tau(const std::deque<JudgedAnswer>& answers, std::size_t stage) {
  double concordant = 0, ordered = 0;
  for (std::size_t i = 0; i < answers.size(); ++i)
    for (std::size_t j = 0; j < answers.size(); ++j) {
      const auto &longer = answers[i], &shorter = answers[j];
      if (!shorter.length.is_whole || longer.length.num_tokens <= shorter.length.num_tokens) continue;
      ordered += 1;
      const auto a = longer.guesses[stage].likely, b = shorter.guesses[stage].likely;
      concordant += a > b ? 1 : a < b ? -1 : 0;
    }
  return ordered == 0 ? 0 : concordant / ordered;
}

double loss_at(double rank, std::uint32_t guess, std::uint32_t length) {
  return *pinball_loss(rank, guess, {.num_tokens = length});
}

// Shares of answers: one that was cut off hands its own to all that are longer, in equal parts. The last ones
// that were cut off keep theirs.
std::vector<double> shares_of(const std::vector<SeenLength>& sorted) {
  std::vector<double> shares(sorted.size(), 1.0 / static_cast<double>(sorted.size()));
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i].is_whole) continue;
    for (std::size_t j = i + 1; j < sorted.size(); ++j)
      shares[j] += shares[i] / static_cast<double>(sorted.size() - i - 1);
    shares[i] = 0;
  }
  return shares;
}

// Of one that was cut off: over all longer ones, by their shares.
class PlainLoss {
 public:
  PlainLoss(const std::deque<JudgedAnswer>& answers, double rank) : answers_(answers), rank_(rank) {
    for (const auto& answer : answers) sorted_.push_back(answer.length);
    std::sort(sorted_.begin(), sorted_.end(), is_shorter);
    shares_ = shares_of(sorted_);
  }
  double mean(const std::function<std::uint32_t(const JudgedAnswer&)>& guess) const {
    double sum = 0;
    for (const auto& answer : answers_) sum += of(answer, guess(answer));
    return sum / static_cast<double>(answers_.size());
  }

 private:
  double of(const JudgedAnswer& answer, std::uint32_t guess) const {
    if (answer.length.is_whole) return loss_at(rank_, guess, answer.length.num_tokens);
    const std::uint32_t last = sorted_.back().num_tokens;
    std::uint32_t longest = last;
    for (const LengthGuess& one : answer.guesses) longest = std::max(longest, one.reserved);
    double sum = 0, all = 0;
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
      const bool is_unknown = !sorted_[i].is_whole;
      if (!is_unknown && sorted_[i].num_tokens <= answer.length.num_tokens) continue;
      all += shares_[i];
      sum += shares_[i] * (is_unknown ? (loss_at(rank_, guess, last) + loss_at(rank_, guess, longest)) / 2
                                      : loss_at(rank_, guess, sorted_[i].num_tokens));
    }
    return sum / all;
  }

  const std::deque<JudgedAnswer>& answers_;
  double rank_;
  std::vector<SeenLength> sorted_;
  std::vector<double> shares_;
};

double plain_coverage(std::vector<JudgedAnswer> answers, std::size_t tenth) {
  std::erase_if(answers, [](const auto& answer) { return !answer.has_fitted; });
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return a.reserved < b.reserved; });
  const std::size_t first = answers.size() * tenth / 10, end = answers.size() * (tenth + 1) / 10;
  if (first == end) return 1;
  double num_fitted = 0;
  for (std::size_t i = first; i < end; ++i) num_fitted += *answers[i].has_fitted ? 1 : 0;
  return num_fitted / static_cast<double>(end - first);
}

TEST_CASE("forecast accuracy: kept as answers come, it is what all of them together give") {
  constexpr double kRank = 0.6;
  ForecastAccuracy accuracy(kRank);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1200; ++i) {
    accuracy.add(any_answer(random));
    if (i % 97 != 0 && i != 1199) continue;
    CAPTURE(i);
    const auto& answers = accuracy.answers();
    const PlainLoss loss(answers, kRank);
    for (std::size_t stage = 0; stage < kNumLengthStages; ++stage) {
      CHECK(accuracy.tau(static_cast<LengthStage>(stage)) == doctest::Approx(plain_tau(answers, stage)));
      CHECK(accuracy.mean_loss(static_cast<LengthStage>(stage)) ==
            doctest::Approx(loss.mean([&](const auto& answer) { return answer.guesses[stage].reserved; })));
    }
    for (std::size_t tenth = 0; tenth < ForecastAccuracy::kNumTenths; ++tenth)
      CHECK(accuracy.coverage(tenth) ==
            doctest::Approx(plain_coverage({answers.begin(), answers.end()}, tenth)));
    CHECK(accuracy.looks().num == 2 * answers.size());
    CHECK(accuracy.looks().standing_loss == doctest::Approx(4.0 * static_cast<double>(answers.size())));
  }
  CHECK(accuracy.size() == ForecastAccuracy::kMostAnswers);
}

TEST_CASE("forecast accuracy: no length that was seen is a better guess than the one known afterwards") {
  for (const bool are_some_cut_off : {false, true})
    for (const double rank : {0.3, 0.6, 0.9}) {
      CAPTURE(are_some_cut_off);
      CAPTURE(rank);
      ForecastAccuracy accuracy(rank);
      std::mt19937_64 random(2);
      for (int i = 0; i < 300; ++i) {
        auto answer = any_answer(random);
        answer.length.is_whole |= !are_some_cut_off;
        accuracy.add(answer);
      }
      const PlainLoss loss(accuracy.answers(), rank);
      double least = 1e9;
      for (std::uint32_t constant = 1; constant <= 40; ++constant)
        least = std::min(least, loss.mean([=](const auto&) { return constant; }));
      CHECK(accuracy.constant_loss() == doctest::Approx(least));
    }
}

// All stages guess `others`, but for the first.
void add(ForecastAccuracy& accuracy, SeenLength length, std::uint32_t first, std::uint32_t others) {
  JudgedAnswer answer{.length = length};
  for (LengthGuess& guess : answer.guesses) guess = {.reserved = others, .likely = others};
  answer.guesses[0] = {.reserved = first, .likely = first};
  accuracy.add(answer);
}

TEST_CASE("forecast accuracy: where clients leave, the guess that most answers outgrow is not the best") {
  ForecastAccuracy accuracy(0.6);
  for (int i = 0; i < 100; ++i)
    add(accuracy, {.num_tokens = i % 5 == 0 ? 50U : 250U, .is_whole = i % 5 == 0}, 150, 400);
  CHECK(accuracy.mean_loss(LengthStage::kTenant) < accuracy.mean_loss(LengthStage::kEveryone));
  // Half as if they ended at 250, half at 400.
  CHECK(accuracy.mean_loss(LengthStage::kTenant) == doctest::Approx(0.2 * 0.4 * 350 + 0.8 * 0.4 * 150 / 2));
  CHECK(accuracy.mean_loss(LengthStage::kEveryone) ==
        doctest::Approx(0.2 * 0.4 * 100 + 0.8 * 0.6 * (100 + 250) / 2));
}

TEST_CASE("forecast accuracy: where clients leave early, answers that went on say how long the others were") {
  ForecastAccuracy accuracy(0.6);
  for (int i = 0; i < 100; ++i)
    add(accuracy, {.num_tokens = i % 5 == 0 ? 160U : 100U, .is_whole = i % 5 == 0}, 150, 400);
  CHECK(accuracy.mean_loss(LengthStage::kEveryone) == doctest::Approx(0.6 * 10));
  CHECK(accuracy.mean_loss(LengthStage::kTenant) == doctest::Approx(0.4 * 240));
}

TEST_CASE("forecast accuracy: where each answer was cut off, stages differ all the same") {
  ForecastAccuracy accuracy(0.6);
  for (int i = 0; i < 40; ++i) add(accuracy, {.num_tokens = 250, .is_whole = false}, 150, 300);
  CHECK(accuracy.mean_loss(LengthStage::kTenant) < accuracy.mean_loss(LengthStage::kEveryone));
  CHECK(accuracy.mean_loss(LengthStage::kTenant) > 0);
}

TEST_CASE("forecast accuracy: clients that leave at any length change no stage's loss but by chance") {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> lengths(0.01), stays(0.006);
  ForecastAccuracy all(0.6), some(0.6);
  for (int i = 0; i < 500; ++i) {
    const auto length = static_cast<std::uint32_t>(1 + lengths(random)),
               left = static_cast<std::uint32_t>(1 + stays(random));
    add(all, {.num_tokens = length}, 92, 200);
    add(some, {.num_tokens = std::min(length, left), .is_whole = length <= left}, 92, 200);
  }
  for (const auto stage : {LengthStage::kEveryone, LengthStage::kTenant})
    CHECK(some.mean_loss(stage) == doctest::Approx(all.mean_loss(stage)).epsilon(0.1));
}

TEST_CASE("forecast accuracy: guesses in the order of the lengths have a tau of 1, in the other one of -1") {
  ForecastAccuracy accuracy(0.6);
  CHECK(accuracy.tau(LengthStage::kState) == 0);
  for (std::uint32_t i = 1; i <= 20; ++i) {
    JudgedAnswer answer{.length = {.num_tokens = 10 * i}};
    answer.guesses[0] = {.reserved = 5, .likely = 5};
    answer.guesses[1] = {.reserved = i, .likely = i};
    answer.guesses[2] = {.reserved = 30 - i, .likely = 30 - i};
    accuracy.add(answer);
  }
  CHECK(accuracy.tau(LengthStage::kEveryone) == 0);
  CHECK(accuracy.tau(LengthStage::kTenant) == 1);
  CHECK(accuracy.tau(LengthStage::kBeginning) == -1);
}

}  // namespace
}  // namespace troupe
