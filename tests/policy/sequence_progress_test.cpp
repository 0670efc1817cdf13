// SPDX-License-Identifier: Apache-2.0
#include "policy/sequence_progress.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>

namespace troupe {
namespace {

SequenceStep submit(SequenceProgress& progress, std::uint32_t max_tokens,
                    std::uint32_t capacity = 1000) {
  const auto step = progress.next_step(max_tokens, capacity);
  REQUIRE(step);
  progress.submitted(*step);
  return *step;
}

TEST_CASE("progress: a prompt goes in chunks and is sampled at its end only") {
  SequenceProgress progress(10, 20);
  CHECK(submit(progress, 4) == SequenceStep{4, 0, false, false});
  CHECK(submit(progress, 4) == SequenceStep{4, 4, false, false});
  CHECK(submit(progress, 4) == SequenceStep{2, 8, false, true});
}

TEST_CASE("progress: one step is submitted ahead, with its input on the device, no more") {
  SequenceProgress progress(3, 20);
  submit(progress, 8);
  CHECK(submit(progress, 8) == SequenceStep{1, 3, true, true});
  CHECK_FALSE(progress.next_step(8, 1000));
  CHECK_FALSE(progress.has_work());
}

TEST_CASE("progress: when the token is known the next step carries it") {
  SequenceProgress progress(3, 20);
  const auto step = submit(progress, 8);
  progress.completed(step);
  CHECK(progress.num_known() == 4);
  CHECK(submit(progress, 8) == SequenceStep{1, 3, false, true});
}

TEST_CASE("progress: an end that is known from the length is not overrun") {
  SequenceProgress progress(3, 4);
  submit(progress, 8);
  CHECK_FALSE(progress.has_work());
}

TEST_CASE("progress: without room in its pages a sequence waits") {
  SequenceProgress progress(6, 20);
  CHECK(progress.next_step(8, 4) == SequenceStep{4, 0, false, false});
  CHECK_FALSE(progress.next_step(8, 0));
  CHECK_FALSE(progress.next_step(0, 100));
}

TEST_CASE("progress: pages are needed for all tokens but the very last") {
  SequenceProgress progress(3, 5);
  CHECK(progress.capacity_needed(1) == 3);
  CHECK(progress.capacity_needed(2) == 4);
  CHECK(progress.capacity_needed(50) == 4);
}

TEST_CASE("progress: after a restart everything known is computed again") {
  SequenceProgress progress(3, 20);
  progress.completed(submit(progress, 8));
  submit(progress, 8);
  progress.restart();
  CHECK(progress.num_in_flight() == 0);
  progress.start(2);
  CHECK(submit(progress, 8) == SequenceStep{2, 2, false, true});
}

// However chunks, completions and restarts fall, tokens are computed once each
// and in order between restarts, and exactly max_total - prompt are drawn.
TEST_CASE("progress: random runs draw just the tokens that were asked for") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto prompt = 1 + static_cast<std::uint32_t>(random() % 30);
    const auto max_total = prompt + 1 + static_cast<std::uint32_t>(random() % 30);
    SequenceProgress progress(prompt, max_total);
    std::deque<SequenceStep> in_flight;
    int patience = 2000;
    while (!progress.is_at_limit() && --patience > 0) {
      const auto choice = random() % 20;
      if (choice == 0) {
        in_flight.clear();
        progress.restart();
        progress.start(static_cast<std::uint32_t>(random() % progress.num_known()));
      } else if (choice < 10) {
        const auto step = progress.next_step(1 + static_cast<std::uint32_t>(random() % 8),
                                             static_cast<std::uint32_t>(random() % 80));
        if (!step) continue;
        REQUIRE(step->context_length + step->num_tokens <= max_total - 1);
        progress.submitted(*step);
        in_flight.push_back(*step);
        REQUIRE(progress.num_pending() <= 2);
      } else if (!in_flight.empty()) {
        progress.completed(in_flight.front());
        in_flight.pop_front();
      }
      REQUIRE(progress.num_known() + progress.num_pending() <= max_total);
    }
    CHECK(progress.num_known() == max_total);
    CHECK(progress.num_pending() == 0);
  }
}

}  // namespace
}  // namespace troupe
