// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/reserved_quantile.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

namespace troupe {
namespace {

// Of ten answers three have 40 tokens too few, and one of these has to give up its pages.
void play(ReservedQuantile& quantile, double unused_token, double brought_back, int num_answers = 3000) {
  for (int i = 0; i < num_answers; ++i)
    quantile.observe({.unused_token = unused_token, .brought_back = i % 10 == 0 ? brought_back : 0},
                     i % 10 < 3 ? 40 : 0);
}

TEST_CASE("reserved quantile: it is what too little costs of what too little and too much do") {
  for (const double ratio : {0.5, 1.0, 3.0}) {  // of a token too few to one too many
    CAPTURE(ratio);
    ReservedQuantile quantile(0);
    play(quantile, 1000, ratio * 1000 * 120);  // there are 120 tokens too few in ten answers
    CHECK(quantile.value() == doctest::Approx(ratio / (ratio + 1)).epsilon(0.05));
  }
}

TEST_CASE("reserved quantile: it goes the right way from the first answers on") {
  const auto after = [](double ratio) {  // of a token too few to one too many
    ReservedQuantile quantile(0);
    play(quantile, 1000, ratio * 1000 * 120, 30);
    return quantile.value();
  };
  CHECK(after(0.25) < ReservedQuantile::kFirst - 20 * ReservedQuantile::kStep);  // 0.2 is right
  CHECK(after(1) < ReservedQuantile::kFirst - 10 * ReservedQuantile::kStep);     // 0.5
  CHECK(after(9) > ReservedQuantile::kFirst + 20 * ReservedQuantile::kStep);     // 0.9
}

TEST_CASE("reserved quantile: whatever costs are, it is no less than the least and no more than the most") {
  ReservedQuantile free(0), dear(0);
  play(free, 1000, 0);
  CHECK(free.value() == ReservedQuantile::kLeast);
  play(dear, 1e-3, 1e9);
  CHECK(dear.value() == ReservedQuantile::kMost);
}

TEST_CASE("reserved quantile: it follows when costs change, and by a small step with each answer") {
  ReservedQuantile quantile(0);
  play(quantile, 1000, 0);
  for (int i = 0; i < 3000; ++i) {
    const double before = quantile.value();
    quantile.observe({.unused_token = 1000, .brought_back = 120e3}, 40);
    CHECK(std::abs(quantile.value() - before) <= ReservedQuantile::kStep + 1e-12);
  }
  CHECK(quantile.value() == doctest::Approx(0.75).epsilon(0.02));
}

TEST_CASE("reserved quantile: while no costs are known, or nothing was too little, it is the first one") {
  ReservedQuantile quantile(0);
  play(quantile, 0, 1e6);
  CHECK(quantile.value() == ReservedQuantile::kFirst);
  for (int i = 0; i < 100; ++i) quantile.observe({.unused_token = 1000, .brought_back = 0}, 0);
  CHECK(quantile.value() == ReservedQuantile::kFirst);
}

TEST_CASE("reserved quantile: one that is set stays, whatever costs are") {
  ReservedQuantile quantile(0.9);
  play(quantile, 1000, 0);
  CHECK(quantile.value() == 0.9);
}

}  // namespace
}  // namespace troupe
