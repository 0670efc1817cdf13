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

// Decodes of n sequences, prompts of n tokens, and both together.
std::vector<CostSample> grid(const IterationCost& cost, double noise, std::uint64_t seed) {
  std::vector<CostSample> samples;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  const auto add = [&](std::uint32_t decodes, std::uint32_t context, std::uint32_t prompt) {
    IterationShape shape;
    for (std::uint32_t i = 0; i < decodes; ++i)
      shape.add({.num_tokens = 1, .context_length = context, .sample = true});
    if (prompt > 0) shape.add({.num_tokens = prompt, .context_length = context / 2});
    samples.push_back(
        {.shape = shape, .nanoseconds = static_cast<double>(cost(shape).count()) * factor(random)});
  };
  for (const std::uint32_t context : {16U, 128U, 1024U}) {
    for (std::uint32_t n = 1; n <= 64; n *= 2) add(n, context, 0);
    for (std::uint32_t n = 8; n <= 512; n *= 2) add(0, context, n);
    for (std::uint32_t n = 8; n <= 256; n *= 4) add(16, context, n);
  }
  return samples;
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

TEST_CASE("cost profile: no samples make no cost") {
  CHECK(fit_iteration_cost({}).fixed == 0);
  CHECK(assess_fit({}, {}).worst_error == 0);
}

TEST_CASE("cost profile: what cannot be used is named") {
  CHECK(profile_problem(sound_profile()) == "");
  auto profile = sound_profile();
  profile.iteration.per_decode_key = -1;
  CHECK(profile_problem(profile).find("iteration.per_decode_key") == 0);
  profile = sound_profile();
  profile.overheads.request = std::numeric_limits<double>::quiet_NaN();
  CHECK(profile_problem(profile).find("overheads.request: expected") == 0);
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
