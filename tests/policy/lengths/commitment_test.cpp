// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/commitment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace troupe {
namespace {

// Plays it out: each takes a page a step, and gives all back when it has what it takes.
std::uint64_t played_peak(std::vector<Commitment> running) {
  std::uint64_t peak = 0;
  while (!running.empty()) {
    std::uint64_t held = 0;
    for (const Commitment& one : running) held += one.num_held;
    peak = std::max(peak, held);
    std::erase_if(running, [](const Commitment& one) { return one.num_more == 0; });
    for (Commitment& one : running) {
      one.num_held += 1;
      one.num_more -= 1;
    }
  }
  return peak;
}

std::vector<Commitment> random_running(std::mt19937_64& random) {
  std::vector<Commitment> running(random() % 12);
  for (Commitment& one : running)
    one = {.num_held = static_cast<std::uint32_t>(random() % 20),
           .num_more = static_cast<std::uint32_t>(random() % 30)};
  return running;
}

TEST_CASE("commitment: one that ends early gives back before one that ends late has grown") {
  const Commitments both({{.num_held = 10, .num_more = 1}, {.num_held = 2, .num_more = 9}});
  CHECK(both.peak() == 14);  // not the 22 of both ends
}

TEST_CASE("commitment: nothing runs, nothing is needed") {
  CHECK(Commitments({}).peak() == 0);
  CHECK(Commitments({}).peak_with({.num_held = 3, .num_more = 4}) == 7);
}

TEST_CASE("commitment: the peak is the one that comes when all are played out") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    auto running = random_running(random);
    const Commitments commitments(running);
    CHECK(commitments.peak() == played_peak(running));
    const Commitment newcomer{.num_held = static_cast<std::uint32_t>(random() % 20),
                              .num_more = static_cast<std::uint32_t>(random() % 30)};
    running.push_back(newcomer);
    CHECK(commitments.peak_with(newcomer) == played_peak(running));
  }
}

}  // namespace
}  // namespace troupe
