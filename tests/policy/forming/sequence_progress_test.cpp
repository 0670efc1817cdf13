// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/sequence_progress.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace troupe {
namespace {

constexpr std::uint32_t kPlenty = 1000;

// Takes the next step of at most max_tokens, which there must be.
SequenceStep submit(SequenceProgress& progress, std::uint32_t max_tokens = kPlenty,
                    std::uint32_t page_capacity = kPlenty) {
  const auto step = progress.next_step(max_tokens, page_capacity);
  REQUIRE(step.has_value());
  progress.submitted(*step);
  return *step;
}

void finish(SequenceProgress& progress, const SequenceStep& step) { progress.completed(step); }

TEST_CASE("sequence_progress: a whole prompt is one step, and draws a token") {
  SequenceProgress progress(5, 10);
  CHECK(progress.is_prefilling());
  CHECK(submit(progress) == SequenceStep{.num_tokens = 5, .context_length = 0, .sample = true});
}

TEST_CASE("sequence_progress: of a prompt in chunks only the last draws a token") {
  SequenceProgress progress(5, 10);
  CHECK(submit(progress, 2) == SequenceStep{.num_tokens = 2, .context_length = 0});
  CHECK(submit(progress, 2) == SequenceStep{.num_tokens = 2, .context_length = 2});
  CHECK_FALSE(progress.is_prefilling());
  CHECK(submit(progress, 2) == SequenceStep{.num_tokens = 1, .context_length = 4, .sample = true});
}

TEST_CASE("sequence_progress: a prompt of one token is a step like decoding") {
  const SequenceProgress progress(1, 10);
  CHECK_FALSE(progress.is_prefilling());
  CHECK(progress.next_step(1, kPlenty) == SequenceStep{.num_tokens = 1, .context_length = 0, .sample = true});
}

TEST_CASE("sequence_progress: a token not seen yet is read on the device") {
  SequenceProgress progress(5, 10);
  submit(progress);
  CHECK(submit(progress) ==
        SequenceStep{.num_tokens = 1, .context_length = 5, .input_from_slot = true, .sample = true});
}

TEST_CASE("sequence_progress: a token that is known is not read on the device") {
  SequenceProgress progress(5, 10);
  finish(progress, submit(progress));
  CHECK(submit(progress) == SequenceStep{.num_tokens = 1, .context_length = 5, .sample = true});
}

TEST_CASE("sequence_progress: so many tokens are pending as may be, and no more than are remembered") {
  for (const std::uint32_t max_pending : {1U, 2U, 5U, 8U, 16U}) {
    const std::uint32_t most = std::min(max_pending, SequenceProgress::kMostPending);
    SequenceProgress progress(5, 40, max_pending);
    const SequenceStep prefill = submit(progress);
    for (std::uint32_t i = 1; i < most; ++i) CHECK(submit(progress).input_from_slot);
    CHECK(progress.num_pending() == most);
    CHECK_FALSE(progress.has_work());
    CHECK(progress.capacity_needed(1) == 5 + most);
    finish(progress, prefill);
    CHECK(progress.has_work());
  }
}

TEST_CASE("sequence_progress: it is one step ahead at most, unless more is asked for") {
  SequenceProgress progress(5, 10);
  const SequenceStep prefill = submit(progress);
  submit(progress);
  CHECK_FALSE(progress.next_step(kPlenty, kPlenty).has_value());
  CHECK_FALSE(progress.has_work());
  finish(progress, prefill);
  CHECK(progress.has_work());
}

TEST_CASE("sequence_progress: the last token is drawn and nothing after it") {
  SequenceProgress progress(5, 6);
  const SequenceStep prefill = submit(progress);
  CHECK_FALSE(progress.has_work());
  finish(progress, prefill);
  CHECK(progress.is_at_limit());
  CHECK_FALSE(progress.has_work());
}

TEST_CASE("sequence_progress: tokens whose KV was found are not computed again") {
  SequenceProgress progress(5, 10);
  progress.start(4);
  CHECK(progress.num_computed() == 4);
  CHECK(submit(progress) == SequenceStep{.num_tokens = 1, .context_length = 4, .sample = true});
}

TEST_CASE("sequence_progress: a step goes as far as its pages do") {
  SequenceProgress progress(5, 10);
  CHECK(submit(progress, kPlenty, 3) == SequenceStep{.num_tokens = 3, .context_length = 0});
  CHECK_FALSE(progress.next_step(kPlenty, 3).has_value());
  CHECK(progress.has_work());
}

TEST_CASE("sequence_progress: without a budget there is no step") {
  CHECK_FALSE(SequenceProgress(5, 10).next_step(0, kPlenty).has_value());
}

TEST_CASE("sequence_progress: after a restart all that is known is computed again") {
  SequenceProgress progress(5, 10);
  finish(progress, submit(progress));
  submit(progress);
  progress.restart();
  CHECK(progress.num_known() == 6);
  CHECK(progress.num_pending() == 0);
  CHECK(progress.num_in_flight() == 0);
  CHECK(submit(progress) == SequenceStep{.num_tokens = 6, .context_length = 0, .sample = true});
}

TEST_CASE("sequence_progress: pages for the last token's KV are never asked for") {
  const SequenceProgress progress(5, 8);
  CHECK(progress.capacity_needed(1) == 5);
  CHECK(progress.capacity_needed(2) == 6);
  CHECK(progress.capacity_needed(3) == 7);
  CHECK(progress.capacity_needed(100) == 7);
}

// What capacity_needed promises, by trying it: num_ahead tokens can be drawn in
// that much room, and not in less.
TEST_CASE("sequence_progress: the capacity needed is exactly what the next tokens need") {
  for (std::uint32_t num_prompt = 1; num_prompt <= 4; ++num_prompt)
    for (std::uint32_t num_answer = 1; num_answer <= 4; ++num_answer)
      for (std::uint32_t num_drawn = 0; num_drawn < num_answer; ++num_drawn)
        for (std::uint32_t num_ahead = 1; num_drawn + num_ahead <= num_answer; ++num_ahead)
          for (const bool has_room : {true, false}) {
            SequenceProgress progress(num_prompt, num_prompt + num_answer);
            for (std::uint32_t i = 0; i < num_drawn; ++i) finish(progress, submit(progress));
            const std::uint32_t capacity = progress.capacity_needed(num_ahead) - (has_room ? 0 : 1);
            while (const auto step = progress.next_step(kPlenty, capacity)) {
              progress.submitted(*step);
              finish(progress, *step);
            }
            const bool has_drawn = progress.num_known() >= num_prompt + num_drawn + num_ahead;
            REQUIRE(has_drawn == has_room);
          }
}

// A sequence on a device that works in order, with whatever chunks, pages and
// delays the dice say, and lost now and then.
struct RandomLife {
  std::mt19937_64 random;
  std::uint32_t num_prompt, max_total, max_pending, capacity = 0;
  SequenceProgress progress;
  std::deque<SequenceStep> in_flight;
  std::uint32_t num_submitted = 0;  // tokens, since it was started

  explicit RandomLife(std::uint64_t seed) : random(seed) {
    num_prompt = 1 + pick(12);
    max_total = num_prompt + 1 + pick(12);
    max_pending = 1 + pick(6);
    progress = SequenceProgress(num_prompt, max_total, max_pending);
    start();
  }

  std::uint32_t pick(std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); }

  void start() {
    num_submitted = pick(progress.num_known());
    capacity = num_submitted;
    progress.start(num_submitted);
  }

  void advance() {
    switch (pick(12)) {
      case 0: lose(); break;
      case 1:
      case 2: capacity += pick(3); break;
      case 3: capacity = std::max(capacity, progress.capacity_needed(1)); break;
      case 4:
      case 5:
      case 6: complete(); break;
      default: submit_one(); break;
    }
    check_counts();
  }

  void lose() {
    if (pick(6) != 0) return;
    in_flight.clear();
    progress.restart();
    start();
  }

  void complete() {
    if (in_flight.empty()) return;
    progress.completed(in_flight.front());
    in_flight.pop_front();
  }

  void submit_one() {
    const std::uint32_t most = 1 + pick(5);
    const auto step = progress.next_step(most, capacity);
    if (step) REQUIRE(progress.has_work());
    if (!step && progress.has_work()) REQUIRE(capacity <= num_submitted);
    if (!step) return;
    REQUIRE(step->context_length == num_submitted);
    REQUIRE(step->num_tokens >= 1);
    REQUIRE(step->num_tokens <= most);
    num_submitted += step->num_tokens;
    REQUIRE(num_submitted <= capacity);
    REQUIRE(num_submitted < max_total);
    REQUIRE(step->input_from_slot == (step->context_length >= progress.num_known()));
    REQUIRE(step->sample == (num_submitted == progress.num_known() + progress.num_pending()));
    progress.submitted(*step);
    in_flight.push_back(*step);
  }

  void check_counts() {
    std::uint32_t num_pending = 0, num_in_flight = 0;
    for (const auto& step : in_flight) {
      num_pending += step.sample ? 1 : 0;
      num_in_flight += step.num_tokens;
    }
    REQUIRE(progress.num_pending() == num_pending);
    REQUIRE(num_pending <= max_pending);
    REQUIRE(progress.num_in_flight() == in_flight.size());
    REQUIRE(progress.num_computed() + num_in_flight == num_submitted);
    REQUIRE(progress.num_known() + num_pending <= max_total);
    REQUIRE(progress.num_known() >= num_prompt);
    REQUIRE(progress.is_at_limit() == (progress.num_known() == max_total));
  }
};

TEST_CASE("sequence_progress: every token is computed once, in order, until the limit") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    RandomLife life(seed);
    int num_events = 0;
    while (!life.progress.is_at_limit()) {
      life.advance();
      REQUIRE(++num_events < 5000);
    }
    CHECK_FALSE(life.progress.has_work());
    CHECK(life.in_flight.empty());
  }
}

TEST_CASE("sequence_progress: holes are filled first, in order, then comes what is new") {
  SequenceProgress progress(20, 40);
  progress.start(16, {{.begin = 0, .end = 4}, {.begin = 8, .end = 12}});
  CHECK(progress.is_prefilling());
  const SequenceStep first = submit(progress);
  CHECK(first == SequenceStep{.num_tokens = 4, .context_length = 0, .fills_hole = true});
  const SequenceStep second = submit(progress, 3);
  CHECK(second == SequenceStep{.num_tokens = 3, .context_length = 8, .fills_hole = true});
  const SequenceStep third = submit(progress);
  CHECK(third == SequenceStep{.num_tokens = 1, .context_length = 11, .fills_hole = true});
  CHECK_FALSE(progress.has_holes());
  const SequenceStep last = submit(progress);
  CHECK(last == SequenceStep{.num_tokens = 4, .context_length = 16, .sample = true});
  for (const auto& step : {first, second, third, last}) finish(progress, step);
  CHECK(progress.num_in_flight() == 0);
  CHECK(progress.num_computed() == 20);
  CHECK(progress.num_known() == 21);
}

TEST_CASE("sequence_progress: one that starts anew forgets its holes") {
  SequenceProgress progress(20, 40);
  progress.start(16, {{.begin = 0, .end = 4}});
  progress.restart();
  CHECK_FALSE(progress.has_holes());
  CHECK(submit(progress).context_length == 0);
}

TEST_CASE("sequence_progress: what is scored has steps of its own, and the last token is drawn from") {
  SequenceProgress progress(5, 20);
  progress.score_known();
  const auto first = progress.next_step(3, 100);
  CHECK(first == SequenceStep{.num_tokens = 3, .context_length = 0, .scores = true});
  progress.submitted(*first);
  const auto second = progress.next_step(3, 100);
  CHECK(second == SequenceStep{.num_tokens = 1, .context_length = 3, .scores = true});
  progress.submitted(*second);
  CHECK_FALSE(progress.scores_next());
  CHECK(progress.next_step(3, 100) == SequenceStep{.num_tokens = 1, .context_length = 4, .sample = true});
}

TEST_CASE("sequence_progress: only what has its scores may come from a cache, and is not scored again") {
  SequenceProgress progress(5, 20);
  progress.score_known();
  CHECK(progress.num_reusable() == 0);
  const auto step = progress.next_step(3, 100);
  progress.submitted(*step);
  CHECK(progress.num_reusable() == 0);
  progress.completed(*step);
  CHECK(progress.num_reusable() == 3);
  progress.restart();
  progress.start(1);
  CHECK_FALSE(progress.scores_next());
  const auto again = progress.next_step(9, 100);
  CHECK(again == SequenceStep{.num_tokens = 2, .context_length = 1});
  progress.submitted(*again);
  const auto rest = progress.next_step(9, 100);
  CHECK(rest == SequenceStep{.num_tokens = 1, .context_length = 3, .scores = true});
  progress.submitted(*rest);
  progress.completed(*again);
  progress.completed(*rest);
  CHECK(progress.num_reusable() == 5);
}

TEST_CASE("sequence_progress: a prompt of one token has nothing to be scored") {
  SequenceProgress progress(1, 5);
  progress.score_known();
  CHECK(progress.num_reusable() == 1);
  CHECK(progress.next_step(9, 100) == SequenceStep{.num_tokens = 1, .context_length = 0, .sample = true});
}

TEST_CASE(
    "sequence_progress: draws that are taken back are given again, and what is behind them counts for "
    "nothing") {
  SequenceProgress progress(3, 9, 2);
  progress.draw_by_permission();
  progress.draw_ahead();
  progress.start(0);
  const auto prompt = progress.next_step(9, 100);
  progress.submitted(*prompt);
  const auto first = progress.next_step(9, 100);
  REQUIRE(first ==
          SequenceStep{.num_tokens = 1, .context_length = 3, .input_from_slot = true, .sample = true});
  progress.submitted(*first);
  CHECK_FALSE(progress.next_step(9, 100));  // two are drawn and not seen
  progress.completed(*prompt);
  const auto behind = progress.next_step(9, 100);
  progress.submitted(*behind);

  progress.take_back_draws();
  progress.drop_step();
  progress.draw_by_permission(false);
  CHECK(progress.num_in_flight() == 1);
  CHECK_FALSE(progress.next_step(9, 100));
  progress.draw_by_permission();
  const auto again = progress.next_step(9, 100);
  REQUIRE(again == SequenceStep{.num_tokens = 1, .context_length = 3, .sample = true});
  progress.submitted(*again);
  CHECK_FALSE(progress.next_step(9, 100));
  progress.drop_step();  // the one behind the first
  progress.completed(*again);
  CHECK(progress.num_known() == 5);
  CHECK(progress.num_computed() == 4);
  CHECK(progress.num_in_flight() == 0);
  progress.draw_ahead();
  progress.submitted(*progress.next_step(9, 100));
  CHECK(progress.next_step(9, 100) ==
        SequenceStep{.num_tokens = 1, .context_length = 5, .input_from_slot = true, .sample = true});
}

TEST_CASE("sequence_progress: a source is read in one step or not yet, and answered behind it") {
  SequenceProgress progress(6, 20);
  progress.begin_with_source(5);
  CHECK_FALSE(progress.next_step(4, 100));
  CHECK_FALSE(progress.next_step(100, 4));
  const auto source = progress.next_step(5, 5);
  REQUIRE(source == SequenceStep{.num_tokens = 5, .reads_source = true});
  progress.submitted(*source);
  CHECK_FALSE(progress.reads_source_next());
  const auto first = progress.next_step(100, 100);
  CHECK(first == SequenceStep{.num_tokens = 1, .context_length = 5, .sample = true});
  progress.submitted(*first);
  progress.completed(*source);
  progress.completed(*first);
  // What is known of the answer follows the source when both are computed again.
  progress.restart();
  progress.start(0);
  CHECK(progress.next_step(100, 100) == source);
  progress.submitted(*source);
  CHECK(progress.next_step(100, 100) == SequenceStep{.num_tokens = 2, .context_length = 5, .sample = true});
}

}  // namespace
}  // namespace troupe
