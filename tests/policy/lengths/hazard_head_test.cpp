// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/hazard_head.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace troupe {
namespace {

// A request's features say which of two kinds it is.
std::vector<float> kind(bool is_long) { return {is_long ? 1.0F : -1.0F, 1.0F}; }

HazardHead::Answer ended(std::uint32_t num_tokens) { return {.length = {.num_tokens = num_tokens}}; }

TEST_CASE("hazard head: lengths of two kinds are told apart after few answers") {
  HazardHead head(2);
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i)
    head.learn(kind(i % 2 == 0), ended(static_cast<std::uint32_t>((i % 2 == 0 ? 300 : 10) + random() % 3)));
  CHECK(head.num_learnt() == 60);
  for (const double rank : {0.5, 0.6, 0.9}) {
    CAPTURE(rank);
    CHECK(head.quantile(kind(false), rank) < 20);
    CHECK(head.quantile(kind(true), rank) > 200);
    CHECK(head.quantile(kind(true), rank) < 500);
  }
}

TEST_CASE("hazard head: answers that were cut off are not taken for short ones") {
  HazardHead head(1);
  const std::vector<float> features = {1};
  for (int i = 0; i < 300; ++i)
    head.learn(features, {.length = i % 2 == 0 ? SeenLength{.num_tokens = 400} : SeenLength{5, false}});
  CHECK(head.quantile(features, 0.5) > 300);
  CHECK(head.quantile(features, 0.5) < 600);
}

TEST_CASE("hazard head: shares of answers are those of its quantiles") {
  HazardHead head(1);
  const std::vector<float> features = {1};
  std::mt19937_64 random(2);
  std::normal_distribution<double> spread(std::log(100), 0.7);
  const auto draw = [&] { return static_cast<std::uint32_t>(std::ceil(std::exp(spread(random)))); };
  for (int i = 0; i < 2000; ++i) head.learn(features, ended(draw()));
  for (const double rank : {0.3, 0.5, 0.7, 0.9}) {
    CAPTURE(rank);
    const std::uint32_t guess = head.quantile(features, rank);
    int num_within = 0;
    for (int i = 0; i < 4000; ++i) num_within += draw() <= guess ? 1 : 0;
    CHECK(std::abs(num_within / 4000.0 - rank) < 0.12);
  }
}

// 40 at once, half of them of 8 tokens and half of 800; only the short ones have ended.
TEST_CASE("hazard head: while long answers run, short ones that have ended do not stand for all") {
  const std::vector<float> features = {1};
  HazardHead ended_only(1), told(1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ended_only.learn(features, ended(8));
    for (std::uint32_t num_tokens = 4; num_tokens <= 64; num_tokens *= 2)
      told.learn(features, {.id = 100 + i,
                            .length = {.num_tokens = num_tokens, .is_whole = false},
                            .told = num_tokens == 4 ? 0 : num_tokens / 2,
                            .runs = true});
    told.learn(features, {.id = i, .length = {.num_tokens = 8}});
  }
  CHECK(told.num_learnt() == 20);
  CHECK(ended_only.quantile(features, 0.7) < 16);
  CHECK(told.quantile(features, 0.7) > 64);
}

TEST_CASE(
    "hazard head: an answer that was told of while it ran is learnt as one that is told of at its end") {
  HazardHead at_end(2), running(2);
  const auto features = kind(true);
  at_end.learn(features, {.id = 1, .length = {.num_tokens = 100}});
  running.learn(features, {.id = 1, .length = {.num_tokens = 30, .is_whole = false}, .runs = true});
  running.learn(features, {.id = 1, .length = {.num_tokens = 100}, .told = 30});
  // At its end one of them was kept already, and so was stepped again; of bins of others nothing is known.
  CHECK(running.num_learnt() == at_end.num_learnt());
  for (const double rank : {0.1, 0.3, 0.9})
    CHECK(running.quantile(features, rank) >= at_end.quantile(features, rank));
}

TEST_CASE(
    "hazard head: reports of a crowd that runs leave the answers that ended among those stepped again") {
  const std::vector<float> ended_kind = {1, 0.2F}, running_kind = {1, -0.2F};  // much alike
  HazardHead head(2);
  for (std::uint64_t id = 1; id <= 400; ++id)
    head.learn(ended_kind, {.id = id, .length = {.num_tokens = 10}});
  for (std::uint64_t id = 1001; id <= 1600; ++id)
    head.learn(running_kind, {.id = id, .length = {.num_tokens = 64, .is_whole = false}, .runs = true});
  // What both kinds have in common is now learnt of the others alone, unless the first are stepped again.
  for (std::uint64_t id = 1001; id <= 1150; ++id)
    head.learn(running_kind, {.id = id, .length = {.num_tokens = 300}, .told = 64});
  CHECK(head.quantile(ended_kind, 0.9) <= 12);
  CHECK(head.quantile(running_kind, 0.5) > 200);
}

TEST_CASE("hazard head: it follows when lengths change") {
  HazardHead head(2);
  for (int i = 0; i < 1000; ++i) head.learn(kind(true), ended(40));
  for (int i = 0; i < 300; ++i) head.learn(kind(true), ended(700));
  CHECK(head.quantile(kind(true), 0.5) > 500);
}

TEST_CASE("hazard head: whatever it is told, quantiles grow with the rank and are numbers") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> any(-4, 4);
  for (int round = 0; round < 20; ++round) {
    HazardHead head(4);
    std::vector<float> features(4);
    for (int i = 0; i < 400; ++i) {
      for (float& number : features) number = any(random);
      const auto length = static_cast<std::uint32_t>(random() >> (32 + random() % 32));
      head.learn(features, {.length = {.num_tokens = length, .is_whole = random() % 3 != 0}});
    }
    std::uint32_t last = 1;
    for (double rank = 0.01; rank < 1; rank += 0.01) {
      const std::uint32_t guess = head.quantile(features, rank);
      CHECK(guess >= last);
      last = guess;
    }
    for (const float number : head.numbers()) CHECK(std::isfinite(number));
  }
}

TEST_CASE("hazard head: what it knows is the same after a restart, and what can't be is refused") {
  HazardHead head(2);
  for (std::uint32_t i = 0; i < 50; ++i) head.learn(kind(i % 2 == 0), ended(10 + i));
  auto numbers = head.numbers();
  HazardHead restored(2);
  REQUIRE(restored.restore(head.num_learnt(), numbers));
  CHECK(restored.num_learnt() == 50);
  for (const double rank : {0.2, 0.6, 0.9})
    CHECK(restored.quantile(kind(true), rank) == head.quantile(kind(true), rank));
  numbers[0] = 1e9F;
  CHECK_FALSE(restored.restore(1, numbers));
  numbers.pop_back();
  CHECK_FALSE(restored.restore(1, numbers));
  CHECK_FALSE(HazardHead(3).restore(1, head.numbers()));
}

}  // namespace
}  // namespace troupe
