// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/state_features.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace troupe {
namespace {

std::vector<float> state_of(std::mt19937_64& random, std::size_t width, float scale) {
  std::normal_distribution<float> normal(scale, scale);
  std::vector<float> state(width);
  for (float& number : state) number = normal(random);
  return state;
}

TEST_CASE("state features: whatever a state's width and scale, they are bounded and of length about one") {
  for (const std::size_t width : {std::size_t{8}, StateFeatures::kFolded, std::size_t{1000}})
    for (const float scale : {1e-3F, 1.0F, 1e4F}) {
      CAPTURE(width);
      CAPTURE(scale);
      StateFeatures features;
      std::mt19937_64 random(width);
      double squares = 0;
      for (int i = 0; i < 400; ++i) {
        const auto taken = features.take(state_of(random, width, scale), {.prompt = 100, .most = 500});
        REQUIRE(taken);
        REQUIRE(taken->size() == StateFeatures::kSize);
        for (const float number : *taken) CHECK(std::abs(number) <= 2);
        if (i < 200) continue;
        for (std::size_t j = 0; j < StateFeatures::kFolded; ++j) squares += (*taken)[j] * (*taken)[j];
      }
      const auto num_used = static_cast<double>(std::min(width, StateFeatures::kFolded));
      CHECK(squares / 200 == doctest::Approx(num_used / StateFeatures::kFolded).epsilon(0.2));
    }
}

TEST_CASE("state features: a state with a number that is none has none") {
  StateFeatures features;
  CHECK_FALSE(features.take(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()},
                            {.prompt = 1, .most = 1}));
  CHECK_FALSE(
      features.take(std::vector<float>{std::numeric_limits<float>::infinity()}, {.prompt = 1, .most = 1}));
  CHECK(features.take(std::vector<float>{1, 2}, {.prompt = 1, .most = 1}));
}

TEST_CASE(
    "state features: a state whose squares would be no numbers is left out, and what is known comes back") {
  StateFeatures features, restored;
  CHECK(features.take(std::vector<float>{1, 2}, {.prompt = 1, .most = 1}));
  CHECK_FALSE(features.take(std::vector<float>{1e20F, 2}, {.prompt = 1, .most = 1}));
  CHECK_FALSE(features.take(std::vector<float>{-1e38F, 2}, {.prompt = 1, .most = 1}));
  CHECK(restored.restore(features.numbers()));
}

TEST_CASE("state features: once measured, a state's features stay") {
  StateFeatures features;
  std::mt19937_64 random(3);
  for (std::uint32_t i = 0; i < StateFeatures::kMeasuredStates; ++i)
    features.take(state_of(random, 64, 1), {.prompt = 1, .most = 1});
  const auto state = state_of(random, 64, 1);
  const auto before = features.take(state, {.prompt = 1, .most = 1});
  for (int i = 0; i < 100; ++i) features.take(state_of(random, 64, 50), {.prompt = 1, .most = 1});
  CHECK(features.take(state, {.prompt = 1, .most = 1}) == before);
}

TEST_CASE("state features: they are the same after a restart, and what can't be is refused") {
  StateFeatures features;
  std::mt19937_64 random(4);
  for (int i = 0; i < 50; ++i) features.take(state_of(random, 300, 1), {.prompt = 1, .most = 1});
  auto numbers = features.numbers();
  StateFeatures restored;
  REQUIRE(restored.restore(numbers));
  const auto state = state_of(random, 300, 1);
  const AnswerSizes sizes{.prompt = 7, .most = 9, .generated = 32};
  CHECK(restored.take(state, sizes) == features.take(state, sizes));
  numbers.back() = -1;
  CHECK_FALSE(restored.restore(numbers));
  numbers.pop_back();
  CHECK_FALSE(restored.restore(numbers));
  CHECK_FALSE(restored.restore({}));
}

}  // namespace
}  // namespace troupe
