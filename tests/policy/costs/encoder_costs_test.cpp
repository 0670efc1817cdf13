// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/encoder_costs.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace troupe;

namespace {

double by_arithmetic(std::uint32_t length, std::uint32_t num_texts) {
  return 50'000 + 3'000.0 * length * num_texts;
}

bool shrinks_nowhere(const EncoderCosts& costs) {
  for (std::uint32_t length = 1; length <= 600; length += 7) {
    for (std::uint32_t count = 1; count <= 80; ++count) {
      if (count > 1 && costs(length, count) < costs(length, count - 1)) return false;
      if (length > 7 && costs(length, count) < costs(length - 7, count)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("encoder costs: between measured points they are interpolated, beyond in proportion") {
  const EncoderCosts costs(by_arithmetic);
  for (const std::uint32_t length : {1, 5, 8, 77, 300, 512})
    for (const std::uint32_t count : {1, 3, 20, 64})
      CHECK(costs(length, count) == doctest::Approx(by_arithmetic(length, count)));
  CHECK(costs(1024, 4) == doctest::Approx(2 * by_arithmetic(512, 4)));
  CHECK(costs(8, 128) == doctest::Approx(2 * by_arithmetic(8, 64)));
}

TEST_CASE("encoder costs: a point that is not measured follows from the one before it") {
  const EncoderCosts costs([](std::uint32_t length, std::uint32_t count) {
    const bool fits = length * count <= 64;
    return fits ? std::optional(1000.0 * length * count) : std::nullopt;
  });
  CHECK(costs(64, 1) == doctest::Approx(64'000));
  CHECK(costs(64, 8) == doctest::Approx(8 * 64'000));
  CHECK(costs(512, 64) == doctest::Approx(512 * 64'000));
}

TEST_CASE("encoder costs: what batches are seen to take is followed, whatever was measured") {
  EncoderCosts costs;
  std::mt19937_64 random(3);
  const auto draw = [&](std::uint64_t most) { return 1 + static_cast<std::uint32_t>(random() % most); };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint32_t length = draw(300), count = draw(20);
    costs.learn(length, count, 3 * by_arithmetic(length, count));
  }
  CHECK(costs.num_learnt() == 20'000);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t length = 5 + draw(250), count = draw(20);
    CHECK(costs(length, count) / by_arithmetic(length, count) == doctest::Approx(3).epsilon(0.1));
  }
}

TEST_CASE("encoder costs: they never shrink with length or number, whatever is seen") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed);
    EncoderCosts costs(
        [&](std::uint32_t, std::uint32_t) { return 1 + static_cast<double>(random() % 1000); });
    CHECK(shrinks_nowhere(costs));
    for (int i = 0; i < 300; ++i)
      costs.learn(1 + static_cast<std::uint32_t>(random() % 600),
                  1 + static_cast<std::uint32_t>(random() % 80), static_cast<double>(random() % 1'000'000));
    CHECK(shrinks_nowhere(costs));
  }
}

TEST_CASE("encoder costs: one time that stands out moves them by a tenth at most") {
  EncoderCosts costs(by_arithmetic);
  costs.learn(8, 1, 1e12);
  CHECK(costs(8, 1) == doctest::Approx(1.1 * by_arithmetic(8, 1)));
  costs.learn(8, 1, 0);
  CHECK(costs(8, 1) == doctest::Approx(1.1 * by_arithmetic(8, 1)));
}

TEST_CASE("encoder costs: their values are read back, and others are refused") {
  const EncoderCosts costs(by_arithmetic);
  std::vector<double> values(costs.values().begin(), costs.values().end());
  const auto again = EncoderCosts::from_values(values);
  REQUIRE(again);
  CHECK((*again)(100, 10) == costs(100, 10));
  const auto spoiled = [&](std::size_t place, double value) {
    auto others = values;
    others[place] = value;
    return EncoderCosts::from_values(others).has_value();
  };
  CHECK_FALSE(spoiled(3, std::nan("")));
  CHECK_FALSE(spoiled(0, 0));
  CHECK_FALSE(spoiled(values.size() - 1, 1e300));
  CHECK_FALSE(spoiled(1, 1));  // two texts in less time than one
  values.pop_back();
  CHECK_FALSE(EncoderCosts::from_values(values));
}
