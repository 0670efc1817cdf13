// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/cost_profile.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>

using namespace troupe;

namespace {

IterationCost known_cost() {
  return {.fixed = 200'000,
          .knots = {1, 2, 4, 8, 16, 32, 64, 128, 256},
          .slopes = {0, 9'000, 9'000, 9'000, 5'000, 5'000, 5'000, 7'000, 7'000},
          .per_sequence = 0,
          .per_output_row = 3'000,
          .per_decode_key = 40,
          .per_prefill_pair = 12};
}

CostSample sample_of(const IterationCost& cost, const std::vector<SequenceStep>& steps) {
  CostSample sample;
  for (const SequenceStep& step : steps) sample.shape.add(step);
  sample.nanoseconds = static_cast<double>(cost(sample.shape).count());
  return sample;
}

std::vector<SequenceStep> decodes(std::uint32_t count, std::uint32_t context) {
  return std::vector<SequenceStep>(count, {.num_tokens = 1, .context_length = context, .sample = true});
}

// Decodes of n sequences, prompts of n tokens, and both together.
std::vector<CostSample> grid(const IterationCost& cost, double noise, std::uint64_t seed) {
  std::vector<CostSample> samples;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  const auto add = [&](std::uint32_t num_decodes, std::uint32_t context, std::uint32_t prompt) {
    auto steps = decodes(num_decodes, context);
    if (prompt > 0) steps.push_back({.num_tokens = prompt, .context_length = context / 2});
    samples.push_back(sample_of(cost, steps));
    samples.back().nanoseconds *= factor(random);
  };
  for (const std::uint32_t context : {16U, 128U, 1024U}) {
    for (std::uint32_t n = 1; n <= 64; n *= 2) add(n, context, 0);
    for (std::uint32_t n = 8; n <= 512; n *= 2) add(0, context, n);
    for (std::uint32_t n = 8; n <= 256; n *= 4) add(16, context, n);
  }
  return samples;
}

// As few as `troupe profile` measures with two sequences and 32 tokens.
std::vector<CostSample> small_grid(const IterationCost& cost) {
  std::vector<CostSample> samples;
  for (const std::uint32_t context : {16U, 256U, 1024U}) {
    const std::uint32_t factor = context == 16 ? 2 : 4;
    for (std::uint32_t n = 1; n <= 2; n *= factor) samples.push_back(sample_of(cost, decodes(n, context)));
    for (std::uint32_t n = 2; n <= 32; n *= factor)
      samples.push_back(sample_of(cost, {{.num_tokens = n, .context_length = context, .sample = true}}));
  }
  return samples;
}

// Of one batch with one token: the fitted time over the true one.
double alone_ratio(const IterationCost& fitted, const IterationCost& cost) {
  const IterationShape alone{.num_tokens = 1, .num_sequences = 1, .num_output_rows = 1};
  return static_cast<double>(fitted(alone).count()) / static_cast<double>(cost(alone).count());
}

const std::vector<IterationCost>& costs_of_machines() {
  static const std::vector<IterationCost> costs = {{.fixed = 300'000},  // the no-op device's
                                                   known_cost(),
                                                   {.fixed = 20'000,
                                                    .knots = {1, 16},
                                                    .slopes = {9'000, 5'000},
                                                    .per_decode_key = 40,
                                                    .per_prefill_pair = 12}};
  return costs;
}

CostProfile sound_profile() {
  CostProfile profile;
  profile.serving.limits = {.context_length = 100, .page_capacity = 1000, .vocabulary_size = 10};
  profile.serving.settings = {.max_batch_tokens = 8, .max_batch_sequences = 4, .prefill_chunk = 8};
  profile.serving.page_size = 4;
  profile.serving.num_pages = 250;
  profile.iteration.fixed = 1000;
  return profile;
}

}  // namespace

TEST_CASE("cost profile: a shape counts rows, keys of decodes and pairs of prompts") {
  IterationShape shape;
  shape.add({.num_tokens = 1, .context_length = 9, .sample = true});
  shape.add({.num_tokens = 3, .context_length = 2});
  CHECK(shape.num_tokens == 4);
  CHECK(shape.num_sequences == 2);
  CHECK(shape.num_output_rows == 1);
  CHECK(shape.decode_keys == 10);
  CHECK(shape.prefill_pairs == 3 + 4 + 5);  // each query sees those before it and itself
}

TEST_CASE("cost profile: slopes apply between their knots, the last one beyond") {
  const IterationCost cost{.fixed = 100, .knots = {1, 4}, .slopes = {10, 1}};
  const auto at = [&](std::uint32_t tokens) { return cost({.num_tokens = tokens}).count(); };
  CHECK(at(1) == 100);
  CHECK(at(2) == 110);
  CHECK(at(4) == 130);
  CHECK(at(10) == 136);
}

TEST_CASE("cost profile: a fit finds the cost that made exact samples") {
  const auto cost = known_cost();
  const auto samples = grid(cost, 0.0, 1);
  const auto fitted = fit_iteration_cost(samples);
  CHECK(assess_fit(fitted, samples).worst_error < 1e-4);
  CHECK(fitted.per_decode_key == doctest::Approx(40).epsilon(0.01));
  CHECK(fitted.per_prefill_pair == doctest::Approx(12).epsilon(0.01));
}

TEST_CASE("cost profile: a fit to noisy samples predicts shapes that were not measured") {
  const auto cost = known_cost();
  const auto fitted = fit_iteration_cost(grid(cost, 0.05, 2));
  IterationShape shape;
  for (int i = 0; i < 24; ++i) shape.add({.num_tokens = 1, .context_length = 400, .sample = true});
  shape.add({.num_tokens = 100, .context_length = 300});
  const auto predicted = static_cast<double>(fitted(shape).count());
  CHECK(predicted == doctest::Approx(static_cast<double>(cost(shape).count())).epsilon(0.03));
}

TEST_CASE("cost profile: a fit to samples of one constant time is that time") {
  auto samples = grid(known_cost(), 0.0, 3);
  for (auto& sample : samples) sample.nanoseconds = 5e6;
  const auto fitted = fit_iteration_cost(samples);
  CHECK(assess_fit(fitted, samples).worst_error < 1e-6);
  CHECK(fitted.fixed == doctest::Approx(5e6));
}

TEST_CASE("cost profile: a few samples that went wrong do not pull the fit away") {
  const auto cost = known_cost();
  auto samples = grid(cost, 0.01, 4);
  for (std::size_t i = 3; i < samples.size(); i += 9) samples[i].nanoseconds *= 4;
  const auto fitted = fit_iteration_cost(samples);
  const auto sound = grid(cost, 0.0, 4);
  CHECK(assess_fit(fitted, sound).p90_error < 0.05);
}

TEST_CASE("cost profile: one stall in any batch leaves the cost of a token alone as it is") {
  for (const IterationCost& cost : costs_of_machines())
    for (const double stall : {3.0, 20.0, 1000.0})
      for (std::size_t i = 0; i < small_grid(cost).size(); ++i) {
        auto samples = small_grid(cost);
        samples[i].nanoseconds *= stall;
        const double ratio = alone_ratio(fit_iteration_cost(samples), cost);
        CHECK(ratio > 0.95);
        CHECK(ratio < 1.05);
      }
}

// Up to 45 % of the batches took any number of times as long, half of them more than twice.
TEST_CASE("cost profile: whatever stalls, the profile is one that can be read") {
  for (const IterationCost& cost : costs_of_machines())
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      std::uniform_real_distribution<double> unit(0, 1);
      auto samples = small_grid(cost);
      for (CostSample& sample : samples)
        if (unit(random) < 0.15 * static_cast<double>(seed % 4)) sample.nanoseconds /= unit(random);
      auto profile = sound_profile();
      profile.iteration = fit_iteration_cost(samples);
      CHECK(profile_problem(profile) == "");
      CHECK(alone_ratio(profile.iteration, cost) > 0.25);
      CHECK(alone_ratio(profile.iteration, cost) < 4);
    }
}

// A clock that ran backwards, a batch that was not computed.
TEST_CASE("cost profile: whatever batch took no time, the profile is one that can be read") {
  for (const IterationCost& cost : costs_of_machines())
    for (std::size_t i = 0; i < small_grid(cost).size(); ++i) {
      auto samples = small_grid(cost);
      samples[i].nanoseconds = 1;
      auto profile = sound_profile();
      profile.iteration = fit_iteration_cost(samples);
      CHECK(profile_problem(profile) == "");
    }
}

TEST_CASE("cost profile: times that rise from zero at 40 tokens leave a batch of one token some") {
  std::vector<CostSample> samples;
  for (const std::uint32_t n : {41U, 64U, 128U})
    samples.push_back({.shape = {.num_tokens = n, .num_sequences = 1}, .nanoseconds = 1000.0 * (n - 40)});
  auto profile = sound_profile();
  profile.iteration = fit_iteration_cost(samples);
  CHECK(profile_problem(profile) == "");
  CHECK(profile.iteration({.num_tokens = 1, .num_sequences = 1}).count() == 12);  // half of 1,000 / 41
}

TEST_CASE("cost profile: keys have no cost where none was attended to") {
  std::vector<CostSample> samples;
  for (const std::uint32_t n : {1U, 2U, 4U, 8U})
    samples.push_back({.shape = {.num_tokens = n, .num_sequences = n}, .nanoseconds = 5000.0 + 100 * n});
  const auto fitted = fit_iteration_cost(samples);
  CHECK(fitted.per_decode_key == 0);
  CHECK(fitted.per_prefill_pair == 0);
  CHECK(assess_fit(fitted, samples).worst_error < 1e-3);
}

TEST_CASE("cost profile: samples that no cost can be fitted to are named") {
  auto samples = small_grid(known_cost());
  CHECK(samples_problem(samples) == "");
  CHECK(samples_problem({}) == "expected batches that were measured, got none");
  for (const double time :
       {0.0, -5.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    samples[3].nanoseconds = time;
    CHECK(samples_problem(samples).starts_with(
        "expected a batch of 4 tokens to take from 1 to 1e12 nanoseconds, got "));
  }
}

TEST_CASE("cost profile: no samples make no cost") {
  CHECK(fit_iteration_cost({}).fixed == 0);
  CHECK(assess_fit({}, {}).worst_error == 0);
}

TEST_CASE("cost profile: no batch takes longer than a profile may say") {
  const IterationCost cost{.fixed = 1, .per_decode_key = 1e15};
  const IterationShape shape{.num_tokens = 1, .num_sequences = 1, .decode_keys = 10'000};
  CHECK(cost(shape) == std::chrono::nanoseconds(1'000'000'000'000'000));
}

TEST_CASE("cost profile: what cannot be used is named") {
  CHECK(profile_problem(sound_profile()) == "");
  auto profile = sound_profile();
  profile.iteration.per_decode_key = -1;
  CHECK(profile_problem(profile).find("iteration.per_decode_key") == 0);
  profile = sound_profile();
  profile.overheads.request = std::numeric_limits<double>::quiet_NaN();
  CHECK(profile_problem(profile).find("overheads.request: expected") == 0);
  profile.overheads.request = 0;
  profile.overheads.turnaround = 1.1e12;
  CHECK(profile_problem(profile).find("overheads.turnaround: expected") == 0);
  profile = sound_profile();
  profile.iteration.knots = {4, 2};
  profile.iteration.slopes = {1, 1};
  CHECK(profile_problem(profile).find("iteration.knots: expected numbers that ascend") == 0);
  profile = sound_profile();
  profile.iteration.slopes = {1};
  CHECK(profile_problem(profile).find("as many slopes as knots, got 1 and 0") != std::string::npos);
  profile = sound_profile();
  profile.iteration.fixed = 0;
  CHECK(profile_problem(profile).find("nanosecond at least, got 0") != std::string::npos);
  profile = sound_profile();
  profile.serving.settings.max_in_flight = 0;
  CHECK(profile_problem(profile) == "serving.max_in_flight: expected a number above 0, got 0");
  profile = sound_profile();
  profile.serving.settings.max_waiting = 0;
  CHECK(profile_problem(profile) == "serving.max_waiting: expected a number above 0, got 0");
}

TEST_CASE("cost profile: the knee is the smallest batch with nine tenths of the best throughput") {
  const auto sample = [](std::uint32_t num_tokens, double nanoseconds) {
    return CostSample{.shape = {.num_tokens = num_tokens}, .nanoseconds = nanoseconds};
  };
  const CostSample samples[] = {sample(1, 100), sample(64, 185), sample(256, 300), sample(512, 550)};
  CHECK(knee_of(samples) == 256);  // the best is 512 in 550
  CHECK(knee_of(std::span(samples).first(2)) == 64);
  CHECK(knee_of(std::span(samples).first(1)) == 1);
}
