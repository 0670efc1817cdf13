// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/residuals.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace troupe {
namespace {

// Iterations of 1 ms and 10 µs a sequence, of which one in fifty stalls for 5 ms.
std::vector<CostSample> stalling_samples(std::size_t count) {
  std::mt19937_64 random(5);
  std::vector<CostSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const auto streams = static_cast<std::uint32_t>(1 + random() % 16);
    samples.push_back({.shape = {.num_tokens = streams, .num_sequences = streams},
                       .nanoseconds = 1e6 + 1e4 * streams + (random() % 50 == 0 ? 5e6 : 0)});
  }
  return samples;
}

TEST_CASE("residuals: what is drawn has the samples' mean and their tail") {
  const auto samples = stalling_samples(5000);
  IterationCost cost = fit_iteration_cost(samples);
  const auto residuals = split_off_residuals(cost, samples);
  CHECK(std::is_sorted(residuals.begin(), residuals.end()));
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> rank(0, 1);
  double measured = 0, drawn = 0;
  std::size_t num_stalls = 0;
  for (const CostSample& sample : samples) {
    const double time =
        static_cast<double>(cost(sample.shape).count()) * residual_at(residuals, rank(random));
    measured += sample.nanoseconds;
    drawn += time;
    num_stalls += time > 3e6 ? 1 : 0;
  }
  CHECK(drawn == doctest::Approx(measured).epsilon(0.02));
  CHECK(num_stalls > 70);  // of 5,000
  CHECK(num_stalls < 130);
}

TEST_CASE("residuals: few samples say nothing of a distribution") {
  const auto samples = stalling_samples(kFewestResiduals - 1);
  IterationCost cost{.fixed = 1e6};
  CHECK(split_off_residuals(cost, samples).empty());
  CHECK(cost.fixed == 1e6);
}

TEST_CASE("residuals: one stall in 20,000 iterations is drawn so often, and no line leads up to it") {
  std::vector<CostSample> samples(20'000,
                                  {.shape = {.num_tokens = 1, .num_sequences = 1}, .nanoseconds = 1e6});
  samples[777].nanoseconds = 5e9;
  IterationCost cost;
  cost.fixed = 1e6;
  const auto residuals = split_off_residuals(cost, samples);
  std::size_t num_stalls = 0;
  double drawn = 0;
  constexpr std::size_t kNumDraws = 200'000;
  for (std::size_t i = 0; i < kNumDraws; ++i) {
    const double residual = residual_at(residuals, (static_cast<double>(i) + 0.5) / kNumDraws);
    num_stalls += residual > 1.1 ? 1 : 0;
    drawn += residual * static_cast<double>(cost(samples[0].shape).count());
  }
  CHECK(num_stalls == 10);
  CHECK(drawn / kNumDraws == doctest::Approx(1e6 + 5e9 / 20'000).epsilon(0.001));
}

TEST_CASE("residuals: each is as likely as another") {
  const std::vector<double> residuals = {0.5, 1.0, 3.0};
  CHECK(residual_at(residuals, 0) == 0.5);
  CHECK(residual_at(residuals, 0.3) == 0.5);
  CHECK(residual_at(residuals, 0.4) == 1.0);
  CHECK(residual_at(residuals, 1) == 3.0);
  CHECK(residual_at({}, 0.3) == 1.0);
}

}  // namespace
}  // namespace troupe
