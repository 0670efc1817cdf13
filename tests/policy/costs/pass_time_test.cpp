// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/pass_time.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>

namespace troupe {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

nanoseconds true_time(std::uint32_t num_tokens) { return microseconds(4000 + 100 * num_tokens); }

// So many passes, after them so many small ones.
PassTime taught(int num_large, int num_small) {
  PassTime time;
  for (int i = 0; i < num_large; ++i) time.observe(2000 + static_cast<std::uint32_t>(i % 7), true_time(2000));
  for (int i = 0; i < num_small; ++i) {
    const auto num_tokens = 20 + static_cast<std::uint32_t>(i % 5);
    time.observe(num_tokens, true_time(num_tokens));
  }
  return time;
}

TEST_CASE("pass time: while nothing is known a pass takes no time and has room for all") {
  PassTime time;
  time.observe(0, microseconds(5));
  time.observe(5, microseconds(0));
  CHECK(time.of(100).count() == 0);
  CHECK(time.tokens_within(microseconds(1)) == std::numeric_limits<std::uint32_t>::max());
}

TEST_CASE("pass time: one large pass after small ones, or the other way round, tells both parts") {
  for (PassTime time : {taught(1, 20), taught(40, 1)}) {
    CHECK(static_cast<double>(time.of(10).count()) == doctest::Approx(5e6).epsilon(0.02));
    CHECK(static_cast<double>(time.of(1000).count()) == doctest::Approx(104e6).epsilon(0.02));
    CHECK(time.tokens_within(microseconds(3900)) == 0);
    const auto within = time.tokens_within(microseconds(7000));
    CHECK(within >= 28);
    CHECK(within <= 31);
  }
}

TEST_CASE("pass time: small passes are remembered behind a hundred large ones") {
  PassTime time = taught(5, 20);
  for (int i = 0; i < 100; ++i) time.observe(2000, true_time(2000));
  CHECK(static_cast<double>(time.of(20).count()) == doctest::Approx(6e6).epsilon(0.05));
}

TEST_CASE("pass time: a pass that seems to have taken no time changes little") {
  for (const auto glitch : {microseconds(5), microseconds(20), microseconds(1000)}) {
    PassTime time = taught(40, 20);
    time.observe(40, glitch);
    CHECK(time.tokens_within(microseconds(7000)) <= 35);  // 30 are right
    time.observe(2000, glitch);
    CHECK(time.tokens_within(microseconds(7000)) <= 35);
  }
}

TEST_CASE("pass time: a first pass that is a hundred times too slow is forgotten after ten others") {
  PassTime time;
  time.observe(500, 100 * true_time(500));
  for (int i = 0; i < 5; ++i) {
    time.observe(2000, true_time(2000));
    time.observe(20, true_time(20));
  }
  CHECK(time.tokens_within(microseconds(7000)) >= 25);  // 30 are right
  CHECK(static_cast<double>(time.of(2000).count()) == doctest::Approx(204e6).epsilon(0.05));
}

TEST_CASE("pass time: where passes are faster than they were, that is learnt in a few of each size") {
  PassTime time = taught(40, 20);
  for (int i = 0; i < 30; ++i) {
    time.observe(2000, true_time(2000) / 4);
    time.observe(20, true_time(20) / 4);
  }
  CHECK(static_cast<double>(time.of(20).count()) == doctest::Approx(6e6 / 4).epsilon(0.1));
}

TEST_CASE(
    "pass time: passes of one length promise too few tokens for longer ones, and none for shorter ones") {
  PassTime time;
  for (int i = 0; i < 10; ++i) time.observe(20, true_time(20));
  CHECK(static_cast<double>(time.of(20).count()) == doctest::Approx(6e6));
  const auto within = time.tokens_within(microseconds(9000));
  CHECK(within >= 29);
  CHECK(within <= 30);  // 50 there would be
  CHECK(time.tokens_within(microseconds(5900)) == 0);
  for (int i = 0; i < 100; ++i) time.observe(2000, true_time(2000));
  time.observe(40, true_time(40));
  CHECK(time.tokens_within(microseconds(7000)) <= 31);
}

TEST_CASE("pass time: no more tokens than twice a usual pass has, however short passes seem to be") {
  PassTime time;
  for (int i = 0; i < 10; ++i) time.observe(20 + static_cast<std::uint32_t>(i % 3), microseconds(4000));
  const auto within = time.tokens_within(microseconds(100'000));
  CHECK(within >= 40);
  CHECK(within <= 44);
}

TEST_CASE("pass time: times that vary by a fifth, some ten times too long, give the line within a fifth") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  PassTime time;
  for (int i = 0; i < 400; ++i) {
    const auto num_tokens =
        static_cast<std::uint32_t>(i % 2 == 0 ? 500 + random() % 1500 : 10 + random() % 40);
    const double factor = i % 40 == 0 ? 10 : noise(random);
    time.observe(
        num_tokens,
        nanoseconds(static_cast<std::int64_t>(factor * static_cast<double>(true_time(num_tokens).count()))));
  }
  CHECK(static_cast<double>(time.of(20).count()) == doctest::Approx(6e6).epsilon(0.2));
  CHECK(static_cast<double>(time.of(1500).count()) == doctest::Approx(154e6).epsilon(0.2));
}

}  // namespace
}  // namespace troupe
