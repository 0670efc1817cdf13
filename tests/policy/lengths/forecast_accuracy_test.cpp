// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/forecast_accuracy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

// Of one guess for each answer, over those that ended by themselves or were cut off behind all guesses, as if
// these had ended there.
double plain_loss(const std::deque<JudgedAnswer>& answers, double rank,
                  const std::function<std::uint32_t(const JudgedAnswer&)>& guess) {
  double sum = 0, number = 0;
  for (const auto& answer : answers) {
    std::uint32_t most = 0;
    for (const LengthGuess& one : answer.guesses) most = std::max(most, one.reserved);
    if (!answer.length.is_whole && answer.length.num_tokens < most) continue;
    sum += *pinball_loss(rank, guess(answer), {.num_tokens = answer.length.num_tokens});
    number += 1;
  }
  return sum / number;
}

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
    for (std::size_t stage = 0; stage < kNumLengthStages; ++stage) {
      CHECK(accuracy.tau(static_cast<LengthStage>(stage)) == doctest::Approx(plain_tau(answers, stage)));
      const auto guess = [&](const auto& answer) { return answer.guesses[stage].reserved; };
      CHECK(accuracy.mean_loss(static_cast<LengthStage>(stage)) ==
            doctest::Approx(plain_loss(answers, kRank, guess)));
    }
    for (std::size_t tenth = 0; tenth < ForecastAccuracy::kNumTenths; ++tenth)
      CHECK(accuracy.coverage(tenth) ==
            doctest::Approx(plain_coverage({answers.begin(), answers.end()}, tenth)));
    CHECK(accuracy.looks().num == 2 * answers.size());
    CHECK(accuracy.looks().standing_loss == doctest::Approx(4.0 * static_cast<double>(answers.size())));
  }
  CHECK(accuracy.size() == ForecastAccuracy::kMostAnswers);
}

TEST_CASE("forecast accuracy: no constant is better than the one known afterwards") {
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
      double least = 1e9;
      for (std::uint32_t constant = 1; constant <= 40; ++constant)
        least = std::min(least, plain_loss(accuracy.answers(), rank, [=](const auto&) { return constant; }));
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

TEST_CASE("forecast accuracy: where clients leave before the longer guess shows, it is no better for that") {
  ForecastAccuracy accuracy(0.6);
  for (int i = 0; i < 40; ++i) add(accuracy, {.num_tokens = 250, .is_whole = false}, 150, 400);
  CHECK(accuracy.num_compared() == 0);
  CHECK(accuracy.mean_loss(LengthStage::kEveryone) == 0);
  CHECK(accuracy.constant_loss() == 0);
  for (int i = 0; i < 10; ++i) add(accuracy, {.num_tokens = 160}, 150, 400);
  CHECK(accuracy.num_compared() == 10);
  CHECK(accuracy.mean_loss(LengthStage::kEveryone) == doctest::Approx(0.6 * 10));
  CHECK(accuracy.mean_loss(LengthStage::kTenant) == doctest::Approx(0.4 * 240));
  CHECK(accuracy.constant_loss() == 0);  // each time 160
}

// Half of the prompts get answers around 100 tokens and half around 140; most clients leave, whatever they
// read.
double lead_of_class(std::uint64_t seed) {
  constexpr double kSpread = 0.3, kQuantile = 0.2533;  // of a normal distribution, at 0.6
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, kSpread);
  std::exponential_distribution<double> stays(1.0 / 107);
  ForecastAccuracy accuracy(0.6);
  std::size_t num_cut_off = 0;
  for (int i = 0; i < 500; ++i) {
    const double median = i % 2 == 0 ? 100 : 140;
    const double length = median * std::exp(normal(random)), left = stays(random);
    JudgedAnswer answer{.length = {.num_tokens = static_cast<std::uint32_t>(1 + std::min(length, left)),
                                   .is_whole = length <= left}};
    const auto guess = static_cast<std::uint32_t>(median * std::exp(kSpread * kQuantile));
    for (LengthGuess& one : answer.guesses) one = {.reserved = 130, .likely = 130};  // of both
    answer.guesses[1] = {.reserved = guess, .likely = guess};
    accuracy.add(answer);
    num_cut_off += answer.length.is_whole ? 0 : 1;
  }
  CHECK(num_cut_off > 300);
  return accuracy.mean_loss(LengthStage::kEveryone) - accuracy.mean_loss(LengthStage::kTenant);
}

TEST_CASE(
    "forecast accuracy: where two of three clients leave, the stage that knows the class of a prompt wins") {
  int num_won = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) num_won += lead_of_class(seed) > 0 ? 1 : 0;
  CHECK(num_won >= 19);
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
