// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_core.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/engine/core_world.hpp"

using namespace troupe;

TEST_CASE("core: a newcomer that finds a slot and pages is in the next batch that is formed") {
  CoreWorld world;
  world.start_worker(0);
  const auto first = world.admit(counting(1, 5), 20);
  world.finish_batch(0);  // its prefill: two decode steps are in flight
  REQUIRE(world.in_flight(0).size() == 2);
  const auto newcomer = world.admit(counting(50, 5), 4);
  CHECK_FALSE(world.is_in_flight(newcomer, 0));  // both were submitted before
  world.finish_batch(0);
  CHECK(world.is_in_flight(newcomer, 0));
  world.finish_all();
  CHECK(world.answer(first).tokens == counting(100, 20));
  CHECK(world.answer(newcomer).tokens == counting(100, 4));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("core: requests go to the worker with most room") {
  CoreWorld world;
  world.start_worker(0);
  world.start_worker(1);
  const auto a = world.admit(counting(1, 5), 8);
  const auto b = world.admit(counting(20, 5), 8);
  const auto c = world.admit(counting(40, 5), 8);
  CHECK(world.answer(a).started.at(0).worker == 0);
  CHECK(world.answer(b).started.at(0).worker == 1);
  CHECK(world.answer(c).started.at(0).worker == 0);
  world.finish_all();
  for (const auto id : {a, b, c}) CHECK(world.answer(id).tokens == counting(100, 8));
}

TEST_CASE("core: a conversation goes where its pages are, though others have more room") {
  CoreWorld world;
  world.start_worker(0);
  world.start_worker(1);
  const auto prompt = counting(1, 9);
  const auto filler = world.admit(counting(300, 5), 1);  // on worker 0
  const auto first = world.admit(prompt, 1);             // on worker 1
  world.finish_all();
  REQUIRE(world.answer(filler).started.at(0).worker == 0);
  REQUIRE(world.answer(first).started.at(0).worker == 1);
  world.admit(counting(400, 5), 8);  // on worker 0
  world.admit(counting(500, 5), 8);  // on worker 1
  auto next = prompt;
  next.push_back(100);
  next.push_back(7);
  const auto second = world.admit(next, 2);
  CHECK(world.answer(second).started.at(0).worker == 1);
  CHECK(world.answer(second).started.at(0).sources.device == 9);  // two pages and a tail
  world.finish_all();
  CHECK(world.answer(second).tokens == counting(100, 2));
}

TEST_CASE("core: sequences of a lost worker go on at another one at once") {
  CoreWorld world;
  world.start_worker(0);
  world.start_worker(1);
  const auto a = world.admit(counting(1, 5), 12);
  const auto b = world.admit(counting(20, 5), 12);
  for (int i = 0; i < 3; ++i) {
    world.finish_batch(0);
    world.finish_batch(1);
  }
  const std::size_t num_tokens = world.answer(a).tokens.size();
  REQUIRE(num_tokens == 3);
  world.lose_worker(0);
  CHECK(world.answer(a).stopped == std::vector{StopReason::kWorkerLost});
  REQUIRE(world.answer(a).started.size() == 2);
  CHECK(world.answer(a).started.back().worker == 1);
  world.finish_all();
  CHECK(world.answer(a).tokens == counting(100, 12));
  CHECK(world.answer(b).tokens == counting(100, 12));
  CHECK(world.answer(b).stopped.empty());
  world.start_worker(0);
  const auto c = world.admit(counting(40, 5), 3);
  world.finish_all();
  CHECK(world.answer(c).tokens == counting(100, 3));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("core: results of an older incarnation are void") {
  CoreWorld world;
  world.start_worker(0);
  const auto a = world.admit(counting(1, 5), 3);
  BatchDone late{.worker = 0, .epoch = 1, .result = {}};
  late.result.batch_id = world.in_flight(0).front().batch_id;
  late.result.tokens = {999};
  world.lose_worker(0);
  world.start_worker(0);
  world.hand(late);
  CHECK(world.answer(a).tokens.empty());
  world.finish_all();
  CHECK(world.answer(a).tokens == counting(100, 3));
}

TEST_CASE("core: pages of a sequence that left stay taken while a batch may write to them") {
  CoreWorld world;
  world.start_worker(0);
  const auto a = world.admit(counting(1, 5), 12);
  world.hand(StopSequence{.sequence = a});
  CHECK(world.core().num_sequences() == 0);
  CHECK(world.core().pages().counts().running > 0);
  world.finish_all();
  CHECK(world.core().pages().counts().running == 0);
  CHECK(world.core().pages().is_consistent());
}

TEST_CASE("core: pages are forgotten though a step behind their sequence's end is in flight") {
  CoreWorld world;
  world.start_worker(0);
  const auto gone = world.admit(counting(1, 17), 12);
  world.finish_batch(0);
  REQUIRE(world.is_in_flight(gone, 0));
  world.hand(StopSequence{.sequence = gone});
  world.hand(ForgetPages{.tokens = std::make_shared<const std::vector<std::int32_t>>(counting(1, 17)),
                         .cache_salt = {}});
  CHECK(world.core().pages().counts().running > 0);
  world.finish_all();
  CHECK(world.core().pages().counts().free == world.core().pages().counts().total);
  CHECK(world.core().pages().is_consistent());
}

TEST_CASE("core: a copy of it goes on by itself, in the same way") {
  CoreWorld world;
  world.start_worker(0);
  const auto a = world.admit(counting(1, 5), 6);
  world.finish_batch(0);
  CoreWorld copy = world;
  copy.finish_all();
  CHECK(copy.answer(a).tokens == counting(100, 6));
  CHECK(world.answer(a).tokens.size() == 1);
  world.finish_all();
  CHECK(world.answer(a).tokens == copy.answer(a).tokens);
}

TEST_CASE("core: a flush is over when nothing runs and nothing is under way") {
  CoreWorld world;
  world.start_worker(0, 16, 16);
  world.admit(counting(1, 9), 2);
  world.hand(FlushPages{.number = 5});
  CHECK(world.flushed.empty());
  world.finish_all();
  CHECK(world.flushed == std::vector<std::uint64_t>{5});
}

TEST_CASE("core: a request that was paused before any device came is checked when it goes on") {
  CoreWorld world;
  const auto paused = world.admit(counting(1, 5), 3);
  const auto too_long = world.admit(counting(1, 100), 3);
  for (const auto id : {paused, too_long}) world.hand(PauseSequence{.sequence = id});
  world.start_worker(0);
  for (const auto id : {paused, too_long}) world.hand(ResumeSequence{.sequence = id});
  world.finish_all();
  CHECK(world.answer(paused).tokens == counting(100, 3));
  REQUIRE(world.answer(too_long).failed);
  CHECK(world.answer(too_long).failed->failure == SequenceFailure::kContextTooLong);
}

TEST_CASE("core: without a disk a flush does not wait for copies that no batch takes along") {
  CoreOptions options = CoreWorld::small_options();
  options.serving.copy_ahead_below = 1.0;
  CoreWorld world(options);
  world.start_worker(0, 16, 16);
  world.admit(counting(1, 9), 2);
  world.finish_all();
  world.hand(FlushPages{.number = 5});
  CHECK(world.flushed == std::vector<std::uint64_t>{5});
}

TEST_CASE("core: copies made ahead behind the last batch go to the disk without another one") {
  CoreOptions options = CoreWorld::small_options();
  options.serving.copy_ahead_below = 1.0;
  options.pages.num_disk_pages = 4;
  CoreWorld world(options);
  world.start_worker(0, 16, 16);
  world.admit(counting(1, 8), 1);
  world.finish_all();
  CHECK(world.core().pages().counts().disk_free < 4);
}

TEST_CASE("core: pages of a sequence that runs go to the disk behind its batches") {
  CoreOptions options = CoreWorld::small_options();
  options.pages.num_disk_pages = 8;
  CoreWorld world(options);
  world.start_worker(0, 16, 16);
  const auto running = world.admit(counting(1, 9), 20);
  for (int batch = 0; batch < 6; ++batch) world.finish_batch(0);
  CHECK(world.is_in_flight(running, 0));
  CHECK(world.core().pages().counts().disk_free < 8);
  world.finish_all();
  CHECK(world.answer(running).tokens == counting(100, 20));
}

namespace {

// The one slice of the batch in front is masked for the token behind so many generated ones.
void check_mask(CoreWorld& world, SequenceId id, std::uint32_t num_generated) {
  CAPTURE(num_generated);
  const Batch& batch = *world.in_flight(0).front().batch;
  for (const SequenceSlice& slice : batch.slices) {
    if (slice.sequence != id) continue;
    REQUIRE(slice.allowed.size() == mask_words(1000));
    for (std::size_t token = 0; token < 1000; ++token)
      CHECK(has_token(slice.allowed, token) == (token == 100 + num_generated));
  }
}

}  // namespace

TEST_CASE("core: tokens that were drawn before are reported when it first runs, and it goes on behind them") {
  for (std::uint32_t num_drawn = 0; num_drawn <= 8; ++num_drawn) {
    CAPTURE(num_drawn);
    CoreWorld world;
    const auto id = world.admit_drawn(num_drawn, 8);
    CHECK(world.answer(id).tokens.empty());  // no worker is there
    world.start_worker(0);
    CHECK(world.answer(id).tokens == counting(100, std::min(num_drawn, 7U)));
    world.start_worker(1);
    world.finish_batch(0);
    world.lose_worker(0);
    world.finish_all();
    CHECK(world.answer(id).tokens == counting(100, 8));
    CHECK(world.answer(id).has_ended);
    CHECK(world.core().pages().counts().running == 0);
  }
}

TEST_CASE("core: a step of a search tells its one token, finds its beginning's pages and teaches no length") {
  CoreOptions options = CoreWorld::small_options();
  options.serving.reservation = ReservationPolicy::kPredicted;
  CoreWorld world(options);
  world.start_worker(0);
  for (std::uint32_t num_drawn = 0; num_drawn < 12; ++num_drawn) {
    CAPTURE(num_drawn);
    const auto id = world.admit_step(num_drawn, num_drawn > 0);
    world.finish_all();
    CHECK(world.answer(id).tokens.size() == 1);
    CHECK(world.answer(id).has_ended);
    // All but the token that the step before has drawn.
    CHECK(world.answer(id).started.at(0).num_known == 5 + num_drawn);
    CHECK(world.answer(id).started[0].cached_tokens == (num_drawn > 0 ? 4 + num_drawn : 0));
  }
  CHECK(world.asked.empty());
  CHECK(world.learnt.empty());
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE(
    "core: a full queue takes a request's next step, and neither displaces it nor lets it wait too long") {
  CoreWorld world;  // max_waiting 8, and no device
  for (int i = 0; i < 8; ++i) world.admit({1, 2}, 3);
  CHECK(world.answer(world.admit_step(0, false)).failed->failure == SequenceFailure::kQueueFull);
  const auto next = world.admit_step(2, true);
  CHECK_FALSE(world.answer(next).failed);
  world.now += std::chrono::seconds(31);
  world.hand(SchedulerTick{});
  CHECK_FALSE(world.answer(next).failed);
  CHECK(world.core().num_sequences() == 1);
  world.start_worker(0);
  world.finish_all();
  CHECK(world.answer(next).tokens.size() == 1);
}

TEST_CASE("core: later steps of searches keep nobody out of the queue, and are counted as no request") {
  CoreWorld world;  // max_waiting 8, and no device
  std::vector<SequenceId> steps;
  for (int i = 0; i < 12; ++i) steps.push_back(world.admit_step(2, true));
  const auto other = world.admit({1, 2}, 3);
  CHECK_FALSE(world.answer(other).failed);
  for (int i = 0; i < 7; ++i) world.admit({1, 2}, 3);
  CHECK(world.answer(world.admit({1, 2}, 3)).failed->failure == SequenceFailure::kQueueFull);
  world.start_worker(0);
  world.finish_all();
  CHECK(world.answer(other).started.at(0).queue_time);
  for (const auto step : steps) {
    CHECK(world.answer(step).tokens.size() == 1);
    CHECK_FALSE(world.answer(step).started.at(0).queue_time);
    CHECK(world.answer(step).started[0].looked_up_tokens == 0);
  }
}

TEST_CASE("core: steps of searches that are stopped or lost take nobody's place in the queue") {
  CoreWorld world;  // max_waiting 8
  world.start_worker(0);
  std::vector<SequenceId> steps;
  for (int i = 0; i < 12; ++i) steps.push_back(world.admit_step(2, true));
  world.hand(StopSequence{steps.front()});
  world.hand(StopSequence{steps.back()});
  world.lose_worker(0);
  world.start_worker(0);
  world.finish_all();
  for (std::size_t i = 1; i < 11; ++i) CHECK(world.answer(steps[i]).tokens.size() == 1);
  world.lose_worker(0);
  for (int i = 0; i < 8; ++i) CHECK_FALSE(world.answer(world.admit({1, 2}, 3)).failed);
  CHECK(world.answer(world.admit({1, 2}, 3)).failed->failure == SequenceFailure::kQueueFull);
}

TEST_CASE("core: a guided sequence whose beginning was drawn waits to hear of what follows it") {
  CoreWorld world;
  world.start_worker(0);
  const auto id = world.admit_drawn(2, 4, true);
  CHECK(world.answer(id).tokens == counting(100, 2));
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 2));
  world.allow(id, 1);  // of the first of them: nothing comes of it
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 2));
  world.allow(id, 2);
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 3));
  world.allow(id, 3);
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 4));
  CHECK(world.answer(id).has_ended);
}

TEST_CASE("core: a guided sequence draws a token when it is known of which, never before") {
  CoreWorld world;
  world.start_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    REQUIRE(world.in_flight(0).size() == 1);
    check_mask(world, guided, i);
    world.finish_batch(0);
    CHECK(world.in_flight(0).empty());
    world.allow(guided, i);      // known already: nothing comes of it
    world.allow(guided, i + 2);  // nor of this
    CHECK(world.in_flight(0).empty());
    world.allow(guided, i + 1);
  }
  CHECK(world.answer(guided).tokens == counting(100, 4));
  CHECK(world.answer(guided).has_ended);
  world.allow(guided, 4);  // it is gone
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("core: all sequences are in every batch while a quick guide is waited for") {
  CoreWorld world;
  world.start_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 5);
  const auto other = world.admit(counting(30, 5), 20);
  world.finish_batch(0);
  world.allow(guided, 1);
  for (std::uint32_t i = 1; i < 5; ++i) {
    REQUIRE(world.in_flight(0).size() == 1);
    CHECK(world.is_in_flight(guided, 0));
    CHECK(world.is_in_flight(other, 0));
    world.finish_batch(0);
    world.allow(guided, i + 1);
  }
  CHECK(world.answer(guided).has_ended);
  CHECK(world.in_flight(0).size() == 2);  // the other one again has a step ahead
  world.finish_all();
  CHECK(world.answer(other).tokens == counting(100, 20));
}

TEST_CASE("core: nobody waits for a slow guide a second time") {
  CoreWorld world;
  world.start_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 5);
  const auto other = world.admit(counting(30, 5), 12);
  world.finish_batch(0);
  CHECK(world.in_flight(0).empty());  // it is waited for
  world.now += std::chrono::milliseconds(60);
  world.allow(guided, 1);
  CHECK(world.is_in_flight(guided, 0));
  world.finish_batch(0);
  CHECK(world.is_in_flight(other, 0));  // without it
  CHECK_FALSE(world.is_in_flight(guided, 0));
  world.allow(guided, 2);  // quick again
  world.finish_batch(0);
  world.finish_all();
  CHECK(world.is_in_flight(other, 0) == false);
  for (std::uint32_t i = 3; i < 6; ++i) {
    world.allow(guided, i);
    world.finish_all();
  }
  CHECK(world.answer(guided).tokens == counting(100, 5));
  CHECK(world.answer(other).tokens == counting(100, 12));
}

TEST_CASE("core: a guided sequence keeps its mask when its worker is lost, in mid-step or between") {
  for (const bool is_in_step : {true, false}) {
    CAPTURE(is_in_step);
    CoreWorld world;
    world.start_worker(0);
    const auto guided = world.admit_guided(counting(1, 5), 4);
    world.finish_batch(0);
    if (is_in_step) world.allow(guided, 1);
    world.lose_worker(0);
    world.start_worker(0);
    if (!is_in_step) {
      CHECK(world.answer(guided).tokens.size() == 1);
      world.finish_all();  // its prompt, but for the last token
      CHECK(world.answer(guided).tokens.size() == 1);
      world.allow(guided, 1);
    }
    for (std::uint32_t i = 2; i < 6; ++i) {
      world.finish_all();
      world.allow(guided, i);
    }
    CHECK(world.answer(guided).tokens == counting(100, 4));
    CHECK(world.core().pages().counts().running == 0);
  }
}

namespace {

// Sources of at most 20 tokens, which 7 ends; answers of at most 12 begin with 8.
CoreOptions options_with_sources() {
  CoreOptions options = CoreWorld::small_options();
  options.source = SourceRule{.source_end = 7, .answer_begins = {8}, .max_source = 20, .max_answer = 12};
  return options;
}

const Batch& first_batch(CoreWorld& world) { return *world.in_flight(0).front().batch; }

}  // namespace

TEST_CASE("core: a source is read whole by a cell of its own, and answered by another") {
  CoreWorld world(options_with_sources());
  world.start_worker(0);
  const auto id = world.admit(counting(20, 18), 3);  // longer than a prompt's chunk
  CHECK(first_batch(world).cell == 0);
  auto source = counting(20, 18);
  source.push_back(7);
  CHECK(first_batch(world).token_ids == source);
  CHECK_FALSE(first_batch(world).slices[0].sample);
  REQUIRE(world.in_flight(0).size() == 2);
  const Batch& answer = *world.in_flight(0)[1].batch;
  CHECK(answer.cell == 1);
  CHECK(answer.token_ids == std::vector<std::int32_t>{8});
  CHECK(answer.slices[0].context_length == 19);
  CHECK(answer.slices[0].source_tokens == 19);
  CHECK(answer.slices[0].sample);
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 3));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("core: sources and answers take turns") {
  CoreWorld world(options_with_sources());
  world.start_worker(0);
  const auto first = world.admit(counting(20, 4), 9);
  world.finish_batch(0);
  const auto second = world.admit(counting(40, 4), 9);
  const auto third = world.admit(counting(60, 4), 9);
  std::vector<CellId> cells;
  while (!world.in_flight(0).empty()) {
    cells.push_back(first_batch(world).cell);
    world.finish_batch(0);
  }
  CHECK(std::count(cells.begin(), cells.end(), 0U) == 1);  // both sources in one batch
  CHECK(cells.front() == 1);
  for (const auto id : {first, second, third}) CHECK(world.answer(id).tokens == counting(100, 9));
}

TEST_CASE("core: an equal source is found, a longer one that begins like it is not") {
  CoreWorld world(options_with_sources());
  world.start_worker(0);
  world.admit(counting(20, 9), 2);
  world.finish_all();
  const auto equal = world.admit(counting(20, 9), 2);
  CHECK(world.answer(equal).started.at(0).cached_tokens == 10);
  world.finish_all();
  CHECK(world.answer(equal).tokens == counting(100, 2));
  const auto longer = world.admit(counting(20, 12), 2);
  CHECK(world.answer(longer).started.at(0).cached_tokens == 0);
  world.finish_all();
  CHECK(world.answer(longer).tokens == counting(100, 2));
}

TEST_CASE("core: after a worker's death a source is read anew, and its answer goes on") {
  CoreWorld world(options_with_sources());
  world.start_worker(0);
  const auto id = world.admit(counting(20, 4), 9);
  for (int i = 0; i < 5; ++i) world.finish_batch(0);
  const std::size_t num_drawn = world.answer(id).tokens.size();
  REQUIRE(num_drawn == 4);
  world.lose_worker(0);
  world.start_worker(0);
  CHECK(first_batch(world).cell == 0);
  world.finish_batch(0);  // what was in flight at a death is tried one by one
  const Batch& answer = first_batch(world);
  CHECK(answer.token_ids == std::vector<std::int32_t>{8, 100, 101, 102, 103});
  CHECK(answer.slices[0].source_tokens == 5);
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 9));
}

TEST_CASE("core: of several sequences with sources each gets its answer, however few pages there are") {
  CoreWorld world(options_with_sources());
  world.start_worker(0, 9);  // two of them need ten
  std::vector<SequenceId> ids;
  for (std::int32_t i = 0; i < 4; ++i) ids.push_back(world.admit(counting(20 + 30 * i, 7), 12));
  world.finish_all();
  for (const SequenceId id : ids) CHECK(world.answer(id).tokens == counting(100, 11));
  const auto was_stopped = [&](SequenceId id) { return !world.answer(id).stopped.empty(); };
  CHECK(std::any_of(ids.begin(), ids.end(), was_stopped));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("core: a source that is too long, and scores of one, are refused by name") {
  CoreWorld world(options_with_sources());
  world.start_worker(0);
  const auto id = world.admit(counting(20, 20), 3);
  REQUIRE(world.answer(id).failed);
  CHECK(world.answer(id).failed->failure == SequenceFailure::kContextTooLong);
  CHECK(world.answer(id).failed->message ==
        "This model reads prompts of at most 19 tokens; this one has 20.");
  CHECK(world.answer(id).failed->field == "prompt");
  const auto empty = world.admit({}, 3);
  REQUIRE(world.answer(empty).failed);
  CHECK(world.answer(empty).failed->message.starts_with("The prompt is empty"));
}

TEST_CASE("core: on a device that waits for masks a guided sequence has a step ahead, like its neighbours") {
  CoreWorld world;
  world.start_waiting_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 6);
  const auto other = world.admit(counting(30, 5), 6);
  for (std::uint32_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    REQUIRE(world.in_flight(0).size() == 2);
    CHECK(world.allowed_token(*world.in_flight(0)[0].batch, guided) == 100 + static_cast<int>(i));
    CHECK(world.allowed_token(*world.in_flight(0)[1].batch, guided) == -1);
    world.finish_batch(0);
    CHECK(world.is_in_flight(guided, 0));
    CHECK(world.is_in_flight(other, 0));
    world.allow(guided, i);      // known already: nothing comes of it
    world.allow(guided, i + 2);  // nor of this
    world.allow(guided, i + 1);
  }
  world.finish_all();
  CHECK(world.answer(guided).tokens.size() == 5);  // of the last nothing was said
  world.allow(guided, 5);
  world.finish_all();
  CHECK(world.answer(guided).tokens == counting(100, 6));
  CHECK(world.answer(guided).has_ended);
  CHECK(world.answer(other).tokens == counting(100, 6));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE(
    "core: a draw whose mask did not come is submitted again when it is known, and nothing behind it "
    "counts") {
  for (const bool is_late : {false, true}) {
    CAPTURE(is_late);
    CoreWorld world;
    world.start_waiting_worker(0);
    const auto guided = world.admit_guided(counting(1, 5), 6);
    const auto other = world.admit(counting(30, 5), 20);
    world.finish_batch(0);
    REQUIRE(world.in_flight(0).size() == 2);
    world.finish_batch(0);  // without its mask
    CHECK(world.answer(guided).tokens.size() == 1);
    CHECK(world.handed == std::vector{TokenMask{}, TokenMask{}});  // nobody waits for it, or for the next
    if (is_late) world.allow(guided, 1);
    world.finish_batch(0);  // the step behind it, which counts for nothing
    if (!is_late) {
      CHECK_FALSE(world.is_in_flight(guided, 0));
      CHECK(world.is_in_flight(other, 0));
      world.allow(guided, 1);
      world.finish_batch(0);
    }
    REQUIRE(world.is_in_flight(guided, 0));
    for (std::uint32_t i = 2; i < 7; ++i) {
      while (world.answer(guided).tokens.size() < i) world.finish_batch(0);
      world.allow(guided, i);
    }
    CHECK(world.answer(guided).tokens == counting(100, 6));
    CHECK(world.answer(guided).num_batches == 6);
    world.finish_all();
    CHECK(world.answer(other).tokens == counting(100, 20));
    CHECK(world.core().pages().counts().running == 0);
  }
}

CoreWorld world_that(bool waits_for_masks) {
  CoreWorld world;
  if (waits_for_masks) {
    world.start_waiting_worker(0);
  } else {
    world.start_worker(0);
  }
  return world;
}

TEST_CASE(
    "core: free tokens are drawn ahead without masks, on every device, and what is behind another is void") {
  for (const bool waits_for_masks : {false, true}) {
    CAPTURE(waits_for_masks);
    CoreWorld world = world_that(waits_for_masks);
    const auto free = world.admit_free(counting(1, 5), 12, 4);
    const auto other = world.admit(counting(30, 5), 12);
    for (std::size_t i = 1; i < 5; ++i) {
      world.finish_batch(0);
      CHECK(world.answer(free).tokens.size() == i);
      REQUIRE(world.in_flight(0).size() == 2);
      for (const SubmitBatch& submitted : world.in_flight(0)) {
        CHECK(submitted.batch->awaited_masks.empty());
        CHECK(world.allowed_token(*submitted.batch, free) == -1);
      }
      CHECK(world.is_in_flight(free, 0));
    }
    world.finish_batch(0);  // a token that is allowed, but not free
    CHECK(world.answer(free).tokens == counting(100, 5));
    world.finish_batch(0);  // the step behind it
    CHECK(world.answer(free).tokens == counting(100, 5));
    world.allow(free, 5);
    while (world.answer(free).tokens.size() < 6) world.finish_batch(0);
    world.allow_free(free, 6, 9);
    world.finish_all();
    CHECK(world.answer(free).tokens == counting(100, 10));  // the last was not free
    world.allow(free, 10);
    world.finish_all();
    world.allow(free, 11);
    world.finish_all();
    CHECK(world.answer(free).tokens == counting(100, 12));
    CHECK(world.answer(free).has_ended);
    CHECK(world.answer(other).tokens == counting(100, 12));
    CHECK(world.core().pages().counts().running == 0);
    CHECK(world.core().pages().is_consistent());
  }
}

TEST_CASE("core: a free draw of a token that may not be is made again, with its mask") {
  for (const bool waits_for_masks : {false, true}) {
    CAPTURE(waits_for_masks);
    CoreWorld world = world_that(waits_for_masks);
    const auto free = world.admit_free(counting(1, 5), 8, 7);
    world.finish_batch(0);
    REQUIRE(world.answer(free).tokens.size() == 1);
    world.drawn_next[free] = 999;
    world.finish_batch(0);
    CHECK(world.answer(free).tokens.size() == 1);
    int num_masked = 0;
    while (world.answer(free).tokens.size() == 1) {
      const Batch& batch = *world.in_flight(0)[0].batch;
      const bool is_masked = world.allowed_token(batch, free) == 100;
      // The number that gave 999 is used up.
      for (const SequenceSlice& slice : batch.slices) CHECK((slice.sampling.seed != 0) == is_masked);
      num_masked += is_masked ? 1 : 0;
      world.finish_batch(0);
    }
    CHECK(num_masked == 1);
    for (const SubmitBatch& submitted : world.in_flight(0))  // it was free: the next are
      CHECK(world.allowed_token(*submitted.batch, free) == -1);
    world.finish_all();
    CHECK(world.answer(free).tokens == counting(100, 8));
    CHECK(world.answer(free).num_batches == 8);
  }
}

TEST_CASE("core: a guided sequence holds nobody up while its prompt is read") {
  CoreWorld world;
  world.start_worker(0);
  const auto other = world.admit(counting(40, 5), 12);
  while (world.answer(other).tokens.size() < 2) world.finish_batch(0);
  const auto guided = world.admit_guided(counting(1, 38), 4, -1);  // three chunks
  int num_ahead = 0;
  for (int i = 0; i < 3 && world.answer(guided).tokens.empty(); ++i) {
    num_ahead += world.in_flight(0).size() > 1 ? 1 : 0;
    world.finish_batch(0);
  }
  CHECK(num_ahead >= 2);
}

TEST_CASE("core: a sequence in free tokens goes on so elsewhere when its worker is lost") {
  CoreWorld world;
  world.start_worker(0);
  world.start_worker(1);
  const auto free = world.admit_free(counting(1, 5), 8, 7);
  world.finish_batch(0);
  world.finish_batch(0);
  REQUIRE(world.answer(free).tokens.size() == 2);
  world.lose_worker(0);
  world.finish_all();
  CHECK(world.answer(free).tokens == counting(100, 8));
  CHECK(world.answer(free).stopped == std::vector{StopReason::kWorkerLost});
}

TEST_CASE("core: a draw in flight whose tokens are said to be free is drawn from all") {
  CoreWorld world;
  world.start_waiting_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 8);
  world.finish_batch(0);
  REQUIRE(world.in_flight(0).size() == 2);
  world.allow_free(guided, 1, 7);
  REQUIRE(world.handed.size() == 2);
  for (const TokenMask& mask : world.handed)
    for (const std::int32_t token : {0, 101, 999}) CHECK(has_token(mask, static_cast<std::size_t>(token)));
  world.finish_all();
  CHECK(world.answer(guided).tokens == counting(100, 8));
}

TEST_CASE("core: nobody waits again for a guide that was waited for too long") {
  CoreWorld world;
  world.start_waiting_worker(0);
  const auto guided = world.admit_guided(counting(1, 5), 20);
  const auto other = world.admit(counting(30, 5), 30);
  world.finish_batch(0);
  world.mask_wait = std::chrono::milliseconds(9);
  std::uint32_t num_waited = 0;
  for (std::uint32_t i = 1; i < 20; ++i) {
    world.allow(guided, i);
    while (world.answer(guided).tokens.size() == i) {
      const auto& masks = world.in_flight(0).front().batch->awaited_masks;
      num_waited += masks.empty() ? 0 : 1;
      world.finish_batch(0);
    }
  }
  CHECK(num_waited == 8);  // 7 x 8 ms are more than 50, and one more was in flight
  CHECK(world.answer(guided).tokens == counting(100, 20));
  world.finish_all();
  CHECK(world.answer(other).tokens == counting(100, 30));
}

TEST_CASE("core: masks that nothing is drawn with any more are closed, however a guided sequence leaves") {
  enum class Leaving { kStop, kPause, kWorkerLost, kEnd };
  for (const auto leaving : {Leaving::kStop, Leaving::kPause, Leaving::kWorkerLost, Leaving::kEnd}) {
    CAPTURE(static_cast<int>(leaving));
    CoreWorld world;
    world.start_waiting_worker(0);
    const auto guided = world.admit_guided(counting(1, 5), 6, leaving == Leaving::kEnd ? 102 : -1);
    world.finish_batch(0);
    world.allow(guided, 1);
    REQUIRE(world.handed.size() == 1);
    if (leaving == Leaving::kStop) world.hand(StopSequence{.sequence = guided});
    if (leaving == Leaving::kPause) {
      world.hand(PauseSequence{.sequence = guided});
      world.finish_all();
    }
    if (leaving == Leaving::kWorkerLost) world.lose_worker(0);
    if (leaving == Leaving::kEnd) {
      world.finish_batch(0);
      world.allow(guided, 2);
      world.finish_batch(0);
      CHECK(world.answer(guided).has_ended);
    }
    CHECK(world.handed.back() == TokenMask{});
    world.finish_all();
    CHECK(world.core().pages().counts().running == 0);
    if (leaving == Leaving::kPause) world.hand(ResumeSequence{.sequence = guided});
    if (leaving == Leaving::kWorkerLost) world.start_waiting_worker(0);
    if (leaving == Leaving::kStop || leaving == Leaving::kEnd) continue;
    for (auto i = static_cast<std::uint32_t>(world.answer(guided).tokens.size()); i < 7; ++i) {
      world.allow(guided, i);
      world.finish_all();
    }
    CHECK(world.answer(guided).tokens == counting(100, 6));
  }
}
