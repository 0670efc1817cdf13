// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/commitment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace troupe {
namespace {

constexpr std::uint32_t kPageSize = 4;

// A sequence in tokens.
struct Played {
  std::uint32_t num_now = 0, num_end = 0;

  static std::uint32_t pages(std::uint32_t num_tokens) { return (num_tokens + kPageSize - 1) / kPageSize; }
  Commitment commitment() const {
    return {.num_held = pages(num_now), .num_more = pages(num_end) - pages(num_now)};
  }
};

// Plays it out: each takes a token a step, and gives all back when it has what it takes.
std::uint64_t played_peak(std::vector<Played> running) {
  std::uint64_t peak = 0;
  while (!running.empty()) {
    std::uint64_t held = 0;
    for (const Played& one : running) held += Played::pages(one.num_now);
    peak = std::max(peak, held);
    std::erase_if(running, [](const Played& one) { return one.num_now == one.num_end; });
    for (Played& one : running) one.num_now += 1;
  }
  return peak;
}

Played random_sequence(std::mt19937_64& random) {
  const auto num_now = static_cast<std::uint32_t>(1 + random() % 60);
  return {.num_now = num_now, .num_end = num_now + static_cast<std::uint32_t>(random() % 100)};
}

TEST_CASE("commitment: one that ends early gives back before one that ends late has grown") {
  const Commitments both({{.num_held = 10, .num_more = 1}, {.num_held = 2, .num_more = 9}});
  CHECK(both.peak() == 15);  // not the 22 of both ends
}

TEST_CASE("commitment: nothing runs, nothing is needed") {
  CHECK(Commitments({}).peak() == 0);
  CHECK(Commitments({}).peak_with({.num_held = 3, .num_more = 4}) == 7);
}

TEST_CASE("commitment: those that end together need what they have and take, and no page more") {
  const Commitments two({{.num_held = 2, .num_more = 6}, {.num_held = 3, .num_more = 6}});
  CHECK(two.peak() == 17);
}

TEST_CASE("commitment: when all are played out, no more is held, wherever in their pages they are") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<Played> running(random() % 12);
    std::vector<Commitment> committed;
    for (Played& one : running) committed.push_back((one = random_sequence(random)).commitment());
    const Commitments commitments(committed);
    CHECK(commitments.peak() >= played_peak(running));
    CHECK(commitments.peak() <= played_peak(running) + 2 * running.size());
    running.push_back(random_sequence(random));
    CHECK(commitments.peak_with(running.back().commitment()) >= played_peak(running));
    CHECK(commitments.peak_with(running.back().commitment()) <= played_peak(running) + 2 * running.size());
  }
}

}  // namespace
}  // namespace troupe
