// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/censored_lengths.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

CensoredLengths lengths_of(std::initializer_list<SeenLength> seen) {
  CensoredLengths lengths;
  for (const SeenLength& length : seen) lengths.add(length);
  return lengths;
}

TEST_CASE("censored lengths: of whole ones the quantiles are the known ones") {
  const auto lengths = lengths_of({{40}, {10}, {30}, {20}});
  CHECK(lengths.quantile(0.25) == 10);
  CHECK(lengths.quantile(0.5) == 20);
  CHECK(lengths.quantile(0.75) == 30);
  CHECK(lengths.quantile(0.99) == 40);
}

TEST_CASE("censored lengths: one that was cut off counts for what is beyond") {
  // Kaplan and Meier: 3/4 are longer than 10; of the two left then, half are longer than 30.
  const auto lengths = lengths_of({{10}, {20, false}, {30}, {40}});
  CHECK(lengths.quantile(0.25) == 10);
  CHECK(lengths.quantile(0.5) == 30);
  CHECK(lengths.quantile(0.63) == 40);
}

TEST_CASE("censored lengths: what no whole answer reached is beyond all that is known") {
  const auto lengths = lengths_of({{10}, {10, false}, {50, false}});
  CHECK(lengths.quantile(0.3) == 10);
  CHECK(lengths.quantile(0.5) == CensoredLengths::kBeyond);
  CHECK(CensoredLengths().quantile(0.5) == CensoredLengths::kBeyond);
}

TEST_CASE("censored lengths: those that run count for what is beyond what they have") {
  auto lengths = lengths_of({{10}, {10}, {30}});
  CHECK(lengths.quantile(0.6) == 10);
  for (std::uint64_t answer = 1; answer <= 3; ++answer) lengths.run(answer, 20);
  CHECK(lengths.quantile(0.3) == 10);
  CHECK(lengths.quantile(0.6) == 30);  // a third is at most 10; of those beyond 20 one is known, of 30
  lengths.run(1, 5);
  lengths.run(2, 0);
  lengths.run(3, 0);
  CHECK(lengths.quantile(0.5) == 10);
  CHECK(lengths.quantile(0.7) == 30);
  lengths.run(1, 0);
  lengths.run(1, 0);  // it ran no more
  CHECK(lengths.quantile(0.6) == 10);
}

TEST_CASE("censored lengths: however many run, each counts once") {
  CensoredLengths lengths;
  for (int i = 0; i < 100; ++i) lengths.add({.num_tokens = 10});
  constexpr std::uint64_t kRunning = 3000;
  for (std::uint64_t answer = 1; answer <= kRunning; ++answer) lengths.run(answer, 20);
  CHECK(lengths.quantile(0.03) == 10);
  CHECK(lengths.quantile(0.04) == CensoredLengths::kBeyond);  // 100 of 3,100 have ended
  for (std::uint64_t answer = 1; answer <= kRunning; ++answer) lengths.run(answer, 5);
  CHECK(lengths.quantile(0.9) == 10);
  for (std::uint64_t answer = 1; answer <= kRunning; ++answer) lengths.run(answer, 30);
  for (std::uint64_t answer = 1; answer <= kRunning - 100; ++answer) lengths.run(answer, 0);
  CHECK(lengths.quantile(0.5) == 10);
  CHECK(lengths.quantile(0.51) == CensoredLengths::kBeyond);
}

TEST_CASE("censored lengths: only the last ones count") {
  CensoredLengths lengths;
  for (std::size_t i = 0; i < CensoredLengths::kMostLengths; ++i) lengths.add({.num_tokens = 900});
  for (std::size_t i = 0; i < CensoredLengths::kMostLengths; ++i)
    lengths.add({.num_tokens = 5, .is_whole = i % 2 == 0});
  CHECK(lengths.size() == CensoredLengths::kMostLengths);
  CHECK(lengths.quantile(0.5) == 5);
}

}  // namespace
}  // namespace troupe
