// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulated_states.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace troupe::loadgen;

namespace {

std::vector<float> state(const SimulatedStateSettings& settings, const SimulatedPlace& place) {
  std::vector<float> numbers;
  append_simulated_state(settings, place, numbers);
  return numbers;
}

// Of the logarithms of lengths and hints, over answers of 1 to 1,024 tokens.
double correlation(double strength) {
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_yy = 0, sum_xy = 0;
  constexpr int kAnswers = 4000;
  for (std::uint32_t i = 0; i < kAnswers; ++i) {
    const std::uint32_t left = 1U << (i % 11);
    const double x = std::log2(left),
                 y = simulated_hint({.strength = strength}, {.request = i, .num_left = left});
    sum_x += x, sum_y += y, sum_xx += x * x, sum_yy += y * y, sum_xy += x * y;
  }
  const double covariance = sum_xy / kAnswers - sum_x * sum_y / kAnswers / kAnswers;
  const double of_x = sum_xx / kAnswers - sum_x * sum_x / kAnswers / kAnswers;
  const double of_y = sum_yy / kAnswers - sum_y * sum_y / kAnswers / kAnswers;
  return covariance / std::sqrt(of_x * of_y);
}

}  // namespace

TEST_CASE(
    "simulated states: equal arguments give equal states, other seeds, requests and looks give others") {
  const SimulatedStateSettings settings{.strength = 0.7, .seed = 3};
  const SimulatedPlace place{.request = 5, .num_generated = 32, .num_left = 100};
  const auto numbers = state(settings, place);
  CHECK(numbers.size() == kSimulatedStateWidth);
  for (const float number : numbers) CHECK(std::abs(number) <= 1);
  CHECK(state(settings, place) == numbers);
  CHECK(state({.strength = 0.7, .seed = 4}, place) != numbers);
  CHECK(state(settings, {.request = 6, .num_generated = 32, .num_left = 100}) != numbers);
  CHECK(state(settings, {.request = 5, .num_generated = 64, .num_left = 100}) != numbers);
}

TEST_CASE("simulated states: as strong as they are said to be, they tell the length") {
  CHECK(correlation(1) == doctest::Approx(1));
  CHECK(correlation(0.8) > 0.95);
  CHECK(correlation(0.5) == doctest::Approx(0.78).epsilon(0.05));
  CHECK(std::abs(correlation(0)) < 0.06);
}

TEST_CASE("simulated states: two looks at one answer err alike") {
  double product = 0, square = 0;
  for (std::uint64_t request = 0; request < 4000; ++request) {
    const double first = simulated_hint({}, {.request = request, .num_generated = 32}) - 8;
    const double second = simulated_hint({}, {.request = request, .num_generated = 64}) - 8;
    product += first * second;
    square += first * first;
  }
  CHECK(product / square == doctest::Approx(0.5).epsilon(0.15));
}
