// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/core_world.hpp"

using namespace troupe;

namespace {

using Cause = ReservationChanged::Cause;

// Pages of 4 tokens, 16 of them; 4 slots.
CoreWorld world_of(ReservationPolicy policy, AdmissionOrder order = AdmissionOrder::kArrival) {
  CoreOptions options = CoreWorld::small_options();
  options.serving.reservation = policy;
  options.serving.admission_order = order;
  options.serving.max_waiting = 64;
  CoreWorld world(options);
  world.start_worker(0);
  return world;
}

bool runs(CoreWorld& world, SequenceId id) {
  return !world.answer(id).started.empty() && !world.answer(id).has_ended;
}

std::size_t num_caused(CoreWorld& world, SequenceId id, Cause cause) {
  const auto& changes = world.answer(id).reserved;
  return static_cast<std::size_t>(std::count_if(changes.begin(), changes.end(),
                                                [&](const auto& change) { return change.cause == cause; }));
}

}  // namespace

TEST_CASE("reservations: by max a newcomer waits until all at their longest fit, and nothing is preempted") {
  CoreWorld world = world_of(ReservationPolicy::kMax);
  const auto first = world.admit(counting(1, 5), 28);  // eight pages each
  const auto second = world.admit(counting(50, 5), 28);
  const auto third = world.admit(counting(90, 5), 28);
  CHECK(runs(world, first));
  CHECK(runs(world, second));
  CHECK_FALSE(runs(world, third));
  world.finish_all();
  for (const auto id : {first, second, third}) {
    CHECK(world.answer(id).tokens == counting(100, 28));
    CHECK(world.answer(id).stopped.empty());
  }
}

TEST_CASE("reservations: on demand the same newcomer joins at once") {
  CoreWorld world = world_of(ReservationPolicy::kOnDemand);
  world.admit(counting(1, 5), 28);
  world.admit(counting(50, 5), 28);
  CHECK(runs(world, world.admit(counting(90, 5), 28)));
}

TEST_CASE("reservations: alone a sequence may have all, whatever is reserved") {
  CoreWorld world = world_of(ReservationPolicy::kMax);
  const auto alone = world.admit(counting(1, 5), 55);
  CHECK(runs(world, alone));
  world.finish_all();
  CHECK(world.answer(alone).tokens == counting(100, 55));
}

TEST_CASE("reservations: an answer whose client knows its length ends there, and reserves no more") {
  CoreWorld world = world_of(ReservationPolicy::kOracle);
  std::vector<SequenceId> all;
  for (std::int32_t i = 0; i < 4; ++i) all.push_back(world.admit_known(counting(1 + 20 * i, 5), 50, 6));
  for (const auto id : all) CHECK(runs(world, id));  // three pages each
  world.finish_all();
  for (const auto id : all) {
    CHECK(world.answer(id).tokens == counting(100, 6));
    CHECK(world.answer(id).stopped.empty());
  }
}

TEST_CASE("reservations: as many join as foretell that they fit, and an answer foretold too short is whole") {
  CoreWorld world = world_of(ReservationPolicy::kOracle);
  std::vector<SequenceId> all;
  for (std::int32_t i = 0; i < 4; ++i) all.push_back(world.admit_foretold(counting(1 + 20 * i, 5), 40, 6));
  for (const auto id : all) CHECK(runs(world, id));
  world.finish_all();
  for (const auto id : all) CHECK(world.answer(id).tokens == counting(100, 40));
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("reservations: by history more join as answers turn out short") {
  CoreWorld world = world_of(ReservationPolicy::kHistory);
  const auto num_at_once = [&world] {
    std::vector<SequenceId> all;
    for (std::int32_t i = 0; i < 4; ++i) all.push_back(world.admit_known(counting(1 + 20 * i, 5), 50, 4));
    const auto count = std::count_if(all.begin(), all.end(), [&](SequenceId id) { return runs(world, id); });
    world.finish_all();
    return count;
  };
  CHECK(num_at_once() == 1);
  for (int i = 0; i < 50; ++i) {
    world.admit_known(counting(1, 5), 50, 4);
    world.finish_all();
  }
  CHECK(num_at_once() > 1);
}

TEST_CASE("reservations: a forecast is asked for once, and what came of it is told") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  const auto id = world.admit_known(counting(1, 5), 20, 6);
  REQUIRE(world.asked.size() == 1);
  CHECK(world.asked[0].sequence == id);
  CHECK(world.asked[0].max_tokens == 20);
  CHECK(runs(world, id));  // it does not wait for it
  world.forecast(id, 9);
  CHECK(world.answer(id).reserved.at(0).num_tokens == 9);
  world.finish_all();
  REQUIRE(world.learnt.size() == 1);
  CHECK(world.learnt[0].num_tokens == 6);
  CHECK(world.learnt[0].is_whole);
}

TEST_CASE("reservations: an answer that is cut off by max_tokens is not told to be whole") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  world.admit(counting(1, 5), 7);
  world.finish_all();
  CHECK(world.learnt.at(0).num_tokens == 7);
  CHECK_FALSE(world.learnt.at(0).is_whole);
}

TEST_CASE("reservations: an answer that its request ended is whole, one that was given up is not") {
  for (const bool is_answered : {false, true}) {
    CoreWorld world = world_of(ReservationPolicy::kPredicted);
    const auto id = world.admit(counting(1, 5), 20);
    for (int i = 0; i < 4; ++i) world.finish_batch(0);
    world.hand(StopSequence{.sequence = id, .is_answered = is_answered});
    REQUIRE(world.learnt.size() == 1);
    CHECK(world.learnt[0].is_whole == is_answered);
  }
}

TEST_CASE("reservations: a newcomer that waits for its forecast joins when it says there is room") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  const auto first = world.admit(counting(1, 5), 40);
  world.forecast(first, 40);
  const auto second = world.admit(counting(50, 5), 40);
  CHECK_FALSE(runs(world, second));
  world.forecast(second, 8);
  CHECK(runs(world, second));
}

TEST_CASE("reservations: without a forecast, history serves after a while") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  for (int i = 0; i < 50; ++i) {
    world.admit_known(counting(1, 5), 50, 4);
    world.finish_all();
  }
  const auto first = world.admit_known(counting(1, 5), 50, 4);
  const auto second = world.admit_known(counting(50, 5), 50, 4);
  CHECK(runs(world, first));
  CHECK_FALSE(runs(world, second));
  world.now += EngineCore::kLongestForecastWait;
  world.hand(SchedulerTick{});
  CHECK(runs(world, second));
}

TEST_CASE("reservations: a forecast that comes when history has stood in gets no more than fits") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  for (int i = 0; i < 50; ++i) {
    world.admit_known(counting(1, 5), 50, 4);
    world.finish_all();
  }
  const auto first = world.admit(counting(1, 5), 50), second = world.admit(counting(50, 5), 50);
  world.now += EngineCore::kLongestForecastWait;
  world.hand(SchedulerTick{});
  REQUIRE(runs(world, first));
  REQUIRE(runs(world, second));
  world.forecast(second, 50);
  CHECK(world.answer(second).reserved.back().num_tokens == 50);
  world.forecast(first, 50);  // beside that there is no room
  CHECK(world.answer(first).reserved.back().num_tokens == 4);
  world.finish_all();
  REQUIRE(num_caused(world, first, Cause::kGaveWay) == 1);
  const auto& changes = world.answer(first).reserved;
  const auto gave_way = std::find_if(changes.begin(), changes.end(),
                                     [](const auto& change) { return change.cause == Cause::kGaveWay; });
  CHECK(gave_way->num_tokens == 50);  // as its forecast said
  for (const auto id : {first, second}) CHECK(world.answer(id).tokens == counting(100, 50));
}

TEST_CASE("reservations: an answer longer than foretold grows where there is room") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  const auto first = world.admit(counting(1, 5), 28);
  const auto second = world.admit(counting(50, 5), 28);
  for (const auto id : {first, second}) world.forecast(id, 6);
  world.finish_all();
  for (const auto id : {first, second}) {
    CHECK(world.answer(id).tokens == counting(100, 28));
    CHECK(world.answer(id).stopped.empty());
    CHECK(num_caused(world, id, Cause::kGrown) == 3);  // 12, 24, 28
  }
}

TEST_CASE("reservations: an answer longer than foretold gives way at most once, and is the same") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  std::vector<SequenceId> all;
  for (std::int32_t i = 0; i < 4; ++i) {
    all.push_back(world.admit(counting(1 + 20 * i, 5), 40));
    world.forecast(all.back(), 1);  // a predictor that always says the shortest
  }
  world.finish_all();
  std::size_t num_given_way = 0;
  for (const auto id : all) {
    CHECK(world.answer(id).tokens == counting(100, 40));
    CHECK(num_caused(world, id, Cause::kGaveWay) <= 1);
    num_given_way += num_caused(world, id, Cause::kGaveWay);
  }
  CHECK(num_given_way > 0);
  CHECK(world.core().pages().counts().running == 0);
}

TEST_CASE("reservations: while others wait, the predictor hears what too little and too much cost") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  for (std::int32_t i = 0; i < 8; ++i) world.forecast(world.admit(counting(1 + 10 * i, 5), 30), 1);
  while (!world.in_flight(0).empty()) {
    world.now += std::chrono::microseconds(10 + world.in_flight(0).front().batch->num_tokens());
    world.finish_batch(0);
  }
  REQUIRE(world.learnt.size() == 8);
  std::size_t num_told = 0, num_brought_back = 0;
  for (const LearnLength& learnt : world.learnt) {
    if (learnt.costs.unused_token == 0) continue;  // nobody waited any more
    num_told += 1;
    CHECK(learnt.costs.unused_token > 30 * 11'000 / 64);  // of 64 tokens, for as long as its 30 tokens took
    // What is on the device yet costs nothing.
    std::uint32_t num_recomputed = 0;
    for (const SequenceStarted& start : world.answer(learnt.sequence).started)
      num_recomputed += start.sources.recomputed;
    CHECK((learnt.costs.brought_back > 0) == (num_recomputed > 0));
    num_brought_back += num_recomputed > 0 ? 1 : 0;
  }
  CHECK(num_told >= 4);
  CHECK(num_told < 8);
  CHECK(num_brought_back > 0);
}

TEST_CASE("reservations: where others wait for slots and not for memory, too much of it costs nothing") {
  CoreOptions options = CoreWorld::small_options();
  options.serving.reservation = ReservationPolicy::kPredicted;
  options.serving.max_batch_sequences = 2;
  CoreWorld world(options);
  // Two begin in one batch and end in one.
  for (std::int32_t i = 0; i < 8; ++i) world.forecast(world.admit(counting(1 + 10 * i, 5), 6), 12);
  world.start_worker(0);
  while (!world.in_flight(0).empty()) {
    world.now += std::chrono::microseconds(100);
    world.finish_batch(0);
  }
  REQUIRE(world.learnt.size() == 8);
  for (const LearnLength& learnt : world.learnt) CHECK(learnt.costs.unused_token == 0);
}

TEST_CASE("reservations: with a predictor that always says the longest, answers are as by max") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  std::vector<SequenceId> all;
  for (std::int32_t i = 0; i < 4; ++i) {
    all.push_back(world.admit_known(counting(1 + 20 * i, 5), 40, 6));
    world.forecast(all.back(), 40);
    world.refine(all.back(), 40);
  }
  CHECK(runs(world, all[0]));
  CHECK_FALSE(runs(world, all[3]));
  world.finish_all();
  for (const auto id : all) {
    CHECK(world.answer(id).tokens == counting(100, 6));
    CHECK(world.answer(id).stopped.empty());
  }
}

CoreWorld handing_world(ReservationPolicy policy, AdmissionOrder order = AdmissionOrder::kArrival,
                        std::uint32_t num_pages = 16) {
  CoreOptions options = CoreWorld::small_options();
  options.serving.reservation = policy;
  options.serving.admission_order = order;
  options.serving.max_waiting = 64;
  CoreWorld world(options);
  world.start_handing_worker(0, num_pages);
  return world;
}

// Tokens of its answer at which the predictor was asked with its state.
std::vector<std::uint32_t> looks_at(const CoreWorld& world, SequenceId id) {
  std::vector<std::uint32_t> places;
  for (const auto& question : world.asked)
    if (question.sequence == id && question.state) places.push_back(question.num_generated);
  return places;
}

void run_to(CoreWorld& world, SequenceId id, std::size_t num_tokens) {
  while (world.answer(id).tokens.size() < num_tokens) world.finish_batch(0);
}

TEST_CASE("reservations: the predictor is asked once more at the end of a prefill, with its state") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted);
  std::vector<SequenceId> all;
  for (std::int32_t i = 0; i < 3; ++i)
    all.push_back(
        world.admit(counting(1 + 20 * i, static_cast<std::size_t>(9 + 6 * i)), 6));  // of one or two chunks
  CHECK(world.asked.size() == 3);
  world.finish_all();
  REQUIRE(world.asked.size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(world.asked[i].state == nullptr);
    const auto& question = world.asked[3 + i];
    CHECK(question.max_tokens == 6);
    REQUIRE(question.state);
    CHECK(*question.state == std::vector<float>{static_cast<float>(question.sequence), 0.5F});
  }
  for (const auto id : all) CHECK(world.answer(id).tokens == counting(100, 6));
}

TEST_CASE("reservations: a state is asked for where lengths are foreseen, and of devices that have it") {
  CoreWorld without = handing_world(ReservationPolicy::kOnDemand);
  CoreWorld no_device = world_of(ReservationPolicy::kPredicted);
  for (CoreWorld* world : {&without, &no_device}) {
    world->admit(counting(1, 9), 6);
    CHECK_FALSE(world->in_flight(0).front().batch->slices.front().wants_state);
    world->finish_all();
  }
  CHECK(without.asked.empty());
  CHECK(no_device.asked.size() == 1);
}

TEST_CASE("reservations: an answer of one token is asked about before it is told of") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted);
  const auto id = world.admit_known(counting(1, 5), 20, 1);
  world.finish_batch(0);
  CHECK(world.answer(id).has_ended);
  CHECK(world.asked.size() == 2);
  CHECK(world.learnt.size() == 1);
}

TEST_CASE("reservations: the end of its prefill sets more aside for an answer, and never less") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted);
  const auto id = world.admit(counting(1, 5), 40);
  world.forecast(id, 9);
  world.finish_batch(0);
  world.refine(id, 5);
  CHECK(num_caused(world, id, Cause::kRefined) == 0);
  world.refine(id, 30);
  REQUIRE(num_caused(world, id, Cause::kRefined) == 1);
  CHECK(world.answer(id).reserved.back().num_tokens == 30);
  CHECK_FALSE(runs(world, world.admit(counting(50, 5), 40)));  // until its own forecast comes
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 40));
  world.refine(id, 40);  // it has ended
}

TEST_CASE("reservations: the predictor is asked with a running answer's state every 32 tokens") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted, AdmissionOrder::kArrival, 64);
  const auto longer = world.admit(counting(1, 5), 100), shorter = world.admit(counting(50, 9), 33);
  world.finish_all();
  CHECK(looks_at(world, longer) == std::vector<std::uint32_t>{0, 32, 64, 96});
  CHECK(looks_at(world, shorter) == std::vector<std::uint32_t>{0, 32});
  for (const auto& question : world.asked)
    if (question.state)
      CHECK(*question.state == std::vector<float>{static_cast<float>(question.sequence), 0.5F});
  CHECK(world.answer(longer).tokens == counting(100, 100));
  CHECK(world.answer(shorter).tokens == counting(100, 33));
}

TEST_CASE("reservations: where only the order follows lengths, running answers are not looked at") {
  CoreWorld world = handing_world(ReservationPolicy::kMax, AdmissionOrder::kShortestFirst);
  const auto id = world.admit(counting(1, 5), 50);
  world.finish_all();
  CHECK(looks_at(world, id) == std::vector<std::uint32_t>{0});
}

TEST_CASE("reservations: a running answer's shrinks and grows with the looks at it, and newcomers join") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted, AdmissionOrder::kArrival, 64);
  const auto id = world.admit(counting(1, 5), 200);
  world.forecast(id, 180);
  run_to(world, id, 33);
  const auto newcomer = world.admit(counting(50, 5), 200);
  world.forecast(newcomer, 120);
  CHECK_FALSE(runs(world, newcomer));
  world.look(id, 104, 32);
  CHECK(num_caused(world, id, Cause::kShrunk) == 1);
  CHECK(world.answer(id).reserved.back().num_tokens == 104);
  CHECK(runs(world, newcomer));
  world.look(id, 120, 32);
  CHECK(num_caused(world, id, Cause::kRefined) == 1);
  CHECK(world.answer(id).reserved.back().num_tokens == 120);
  for (const std::uint32_t near : {118U, 122U, 108U, 131U}) world.look(id, near, 32);  // within an eighth
  CHECK(num_caused(world, id, Cause::kShrunk) == 1);
  CHECK(num_caused(world, id, Cause::kRefined) == 1);
  world.look(id, 1, 32);  // until the next look it does not near its end
  const auto least = world.answer(id).reserved.back().num_tokens;
  // It is reported a page before its end.
  CHECK(least > world.answer(id).tokens.size() + EngineCore::kTokensBetweenLooks + CoreWorld::kPageSize);
  CHECK(num_caused(world, id, Cause::kGrown) == 0);
  world.finish_all();
  CHECK(world.answer(id).tokens == counting(100, 200));
  CHECK(world.answer(newcomer).tokens == counting(100, 200));
  CHECK(num_caused(world, id, Cause::kGaveWay) <= 1);
  world.look(id, 9, 64);  // it has ended
}

TEST_CASE(
    "reservations: a look that wants more than fits changes nothing, and the reservation's end decides") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted, AdmissionOrder::kArrival, 64);
  const auto grower = world.admit(counting(1, 5), 200), other = world.admit(counting(50, 5), 200);
  world.forecast(grower, 100);
  world.forecast(other, 140);
  run_to(world, grower, 33);
  REQUIRE(runs(world, other));
  world.look(grower, 190, 32);  // beside 140 of the other
  CHECK(num_caused(world, grower, Cause::kRefined) == 0);
  CHECK(world.answer(grower).reserved.back().num_tokens == 100);
  while (num_caused(world, grower, Cause::kGaveWay) == 0 && !world.in_flight(0).empty())
    world.finish_batch(0);
  CHECK(num_caused(world, grower, Cause::kGaveWay) == 1);
  CHECK(world.answer(grower).tokens.size() <= 100);
  world.look(grower, 150, 96);  // it waits: what it wants is asked for when it joins
  CHECK(num_caused(world, grower, Cause::kShrunk) == 1);  // of the doubled ones
  world.finish_all();
  for (const auto id : {grower, other}) CHECK(world.answer(id).tokens == counting(100, 200));
}

TEST_CASE("reservations: with an answer's end the predictor hears how far others have come") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  const auto longer = world.admit(counting(1, 5), 30);
  const auto shorter = world.admit_known(counting(20, 5), 30, 4);
  for (const auto id : {longer, shorter}) world.forecast(id, 10);  // both have room
  world.finish_all();
  REQUIRE(world.learnt.size() == 2);
  CHECK(world.learnt[0].sequence == shorter);
  REQUIRE(world.learnt[0].running.size() == 1);
  CHECK(world.learnt[0].running[0].sequence == longer);
  CHECK(world.learnt[0].running[0].num_tokens >= 3);
  CHECK(world.learnt[0].running[0].num_tokens <= 8);  // steps are in flight
  CHECK(world.learnt[1].running.empty());
}

TEST_CASE("reservations: the shortest likely answer goes first, and many can't keep a long one waiting") {
  CoreWorld world = world_of(ReservationPolicy::kMax, AdmissionOrder::kShortestFirst);
  world.admit(counting(1, 5), 50);  // all pages
  const auto longer = world.admit(counting(20, 5), 40);
  const auto shorter = world.admit(counting(40, 5), 40);
  world.forecast(longer, 30, 30);
  world.forecast(shorter, 3, 3);
  while (!runs(world, longer) && !runs(world, shorter)) world.finish_batch(0);
  CHECK(runs(world, shorter));
  CHECK_FALSE(runs(world, longer));
  world.finish_all();
  CHECK(world.answer(longer).tokens == counting(100, 40));
}

void pause(CoreWorld& world, SequenceId id) {
  world.hand(PauseSequence{.sequence = id});
  world.finish_all();
}

TEST_CASE("reservations: an answer that has outgrown its forecast is not the shortest one for that") {
  CoreWorld world = world_of(ReservationPolicy::kMax, AdmissionOrder::kShortestFirst);
  const auto outgrown = world.admit(counting(1, 5), 40);
  world.forecast(outgrown, 3, 3);
  run_to(world, outgrown, 10);
  pause(world, outgrown);
  const auto all_pages = world.admit_known(counting(20, 5), 50, 6);
  const auto other = world.admit(counting(40, 5), 40);
  world.forecast(other, 12, 12);
  world.hand(ResumeSequence{.sequence = outgrown});
  while (!world.answer(all_pages).has_ended) world.finish_batch(0);
  CHECK(runs(world, other));  // 12 tokens before twice as many as the other one has
  CHECK(world.answer(outgrown).started.size() == 1);
  world.finish_all();
  for (const auto id : {outgrown, other}) CHECK(world.answer(id).tokens == counting(100, 40));
}

TEST_CASE("reservations: what is set aside for an answer that has begun is its place in the order") {
  CoreWorld world = handing_world(ReservationPolicy::kPredicted, AdmissionOrder::kShortestFirst, 64);
  const auto begun = world.admit(counting(1, 5), 200);
  world.forecast(begun, 180, 175);
  run_to(world, begun, 33);
  pause(world, begun);
  const auto all_pages = world.admit_known(counting(20, 5), 245, 6);
  const auto other = world.admit(counting(40, 5), 200);
  world.forecast(other, 200, 170);
  bool is_shrunk = false;
  SUBCASE("180 are, while 170 are likely of the other one") {}
  SUBCASE("a look at it that comes while it waits says 150") { is_shrunk = true; }
  world.hand(ResumeSequence{.sequence = begun});
  if (is_shrunk) world.look(begun, 150, 32);
  while (!world.answer(all_pages).has_ended) world.finish_batch(0);
  CHECK(world.answer(begun).started.size() == (is_shrunk ? 2 : 1));
  CHECK(runs(world, other) == !is_shrunk);
}

// Shortest first, each at most twice its fair share; one passes while the other runs.
CoreWorld passing_world() {
  CoreOptions options = CoreWorld::small_options();
  options.serving.reservation = ReservationPolicy::kMax;
  options.serving.admission_order = AdmissionOrder::kShortestFirst;
  options.serving.most_wait = 2;
  options.serving.max_batch_sequences = 2;
  options.serving.max_waiting = 64;
  CoreWorld world(options);
  world.start_worker(0);
  return world;
}

TEST_CASE("reservations: fewer pass a large one when the client of one in front of it leaves early") {
  CoreWorld world = passing_world();
  world.admit_known(counting(1, 5), 50, 6);  // all pages
  const auto in_front = world.admit(counting(100, 34), 20);
  const auto large = world.admit(counting(40, 5), 50);
  std::vector<SequenceId> small;
  for (std::int32_t i = 0; i < 20; ++i) small.push_back(world.admit(counting(60 + i, 5), 7));
  while (!runs(world, in_front)) world.finish_batch(0);
  world.hand(StopSequence{.sequence = in_front});  // of its prompt of 34 nothing is computed
  while (!runs(world, large)) world.finish_batch(0);
  const auto num_passed = std::count_if(small.begin(), small.end(),
                                        [&](SequenceId id) { return !world.answer(id).started.empty(); });
  CHECK(num_passed > 0);
  CHECK(num_passed * (5 + 7) <= 5 + 50);
  world.finish_all();
  CHECK(world.answer(large).tokens == counting(100, 50));
}

TEST_CASE("reservations: fewer pass a large one when an answer that was in front of it ends early") {
  CoreWorld world = passing_world();
  const auto first = world.admit_known(counting(1, 5), 50, 6);  // all pages
  const auto in_front = world.admit_known(counting(20, 5), 40, 4);
  const auto large = world.admit(counting(40, 5), 50);
  std::vector<SequenceId> small;
  for (std::int32_t i = 0; i < 20; ++i) small.push_back(world.admit(counting(60 + i, 5), 7));
  while (!world.answer(first).has_ended || !world.answer(in_front).has_ended) world.finish_batch(0);
  while (!runs(world, large)) world.finish_batch(0);
  const auto num_passed = std::count_if(small.begin(), small.end(),
                                        [&](SequenceId id) { return !world.answer(id).started.empty(); });
  CHECK(num_passed > 0);
  CHECK(num_passed * (5 + 7) <= 5 + 4 + 5 + 50);  // 45 in place of 9 were known when it began
  world.finish_all();
  CHECK(world.answer(large).tokens == counting(100, 50));
}

TEST_CASE("reservations: by length, one that does not fit on one worker runs on another") {
  CoreWorld world = world_of(ReservationPolicy::kMax, AdmissionOrder::kShortestFirst);
  world.start_worker(1);
  const auto first = world.admit(counting(1, 5), 50);  // all pages of a worker
  const auto second = world.admit(counting(20, 5), 50);
  const auto third = world.admit(counting(40, 5), 50);
  CHECK(runs(world, first));
  CHECK(runs(world, second));
  CHECK_FALSE(runs(world, third));
}

TEST_CASE("reservations: by length, small requests of one flow don't keep a large one of another waiting") {
  CoreWorld world = world_of(ReservationPolicy::kMax, AdmissionOrder::kShortestFirst);
  SequenceId last = 1000;
  const auto admit = [&](std::string flow, std::uint32_t max_tokens) {
    auto ticket = std::make_shared<AdmissionTicket>();
    ticket->sequence = ++last;
    ticket->prompt = counting(1 + static_cast<std::int32_t>(last % 50) * 5, 5);
    ticket->max_tokens = max_tokens;
    ticket->flow = std::move(flow);
    world.hand(Admit{.ticket = std::move(ticket)});
    return last;
  };
  admit("small", 14);  // ends between two others
  admit("small", 28);
  const auto large = admit("large", 50);
  for (int batch = 0; batch < 200 && !runs(world, large); ++batch) {
    if (world.core().num_waiting() < 3) admit("small", 28);
    world.finish_batch(0);
  }
  CHECK(runs(world, large));
}

TEST_CASE("reservations: a prompt that is only scored has no answer to learn from") {
  CoreWorld world = world_of(ReservationPolicy::kPredicted);
  auto ticket = std::make_shared<AdmissionTicket>();
  ticket->sequence = 1000;
  ticket->prompt = counting(1, 5);
  ticket->max_tokens = 0;
  ticket->scores_prompt = true;
  world.hand(Admit{.ticket = std::move(ticket)});
  CHECK(runs(world, 1000));
  world.finish_all();
  CHECK(world.answer(1000).has_ended);
  CHECK(world.asked.empty());
  CHECK(world.learnt.empty());
}

// Answers to the predictor's questions, `delay` rounds late.
struct Guesser {
  std::function<std::uint32_t()> guess;
  std::size_t delay = 0;
  std::size_t num_answered = 0;
  std::deque<std::size_t> asked_by_round = {};

  void answer(CoreWorld& world) {
    asked_by_round.push_back(world.asked.size());
    if (asked_by_round.size() <= delay) return;
    for (; num_answered < asked_by_round.front(); ++num_answered) {
      const auto question = world.asked[num_answered];
      const std::uint32_t length = guess();
      if (!question.state) {
        world.forecast(question.sequence, length);
      } else if (question.num_generated == 0) {
        world.refine(question.sequence, length);
      } else {
        world.look(question.sequence, length, question.num_generated);
      }
    }
    asked_by_round.pop_front();
  }
};

struct Played {
  std::vector<std::vector<std::int32_t>> answers;
  std::size_t most_given_way = 0;  // times, of a sequence
};

// The same traffic on few pages.
Played play(CoreWorld world, Guesser guesser, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<SequenceId> all;
  for (int i = 0; i < 12; ++i) {
    const auto num_prompt = 3 + random() % 8;
    const auto max_tokens = static_cast<std::uint32_t>(8 + random() % 30);
    const auto answer_tokens = static_cast<std::uint32_t>(1 + random() % max_tokens);
    all.push_back(world.admit_known(counting(1 + 20 * (i % 5), num_prompt), max_tokens, answer_tokens));
    guesser.answer(world);
    for (int batch = 0; batch < 6 && !world.in_flight(0).empty(); ++batch) world.finish_batch(0);
  }
  while (!world.in_flight(0).empty()) {
    guesser.answer(world);
    world.finish_batch(0);
  }
  Played played;
  for (const auto id : all) {
    played.answers.push_back(world.answer(id).tokens);
    played.most_given_way = std::max(played.most_given_way, num_caused(world, id, Cause::kGaveWay));
  }
  CHECK(world.core().pages().counts().running == 0);
  CHECK(world.core().num_sequences() == 0);
  return played;
}

Played play_with_chance(ReservationPolicy policy, AdmissionOrder order, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return play(handing_world(policy, order),
              {.guess = [&] { return static_cast<std::uint32_t>(1 + random() % 40); }}, seed);
}

TEST_CASE("reservations: answers are the same under every policy and order") {
  using enum ReservationPolicy;
  using enum AdmissionOrder;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const auto expected = play_with_chance(kOnDemand, kArrival, seed).answers;
    for (const auto policy : {kOnDemand, kMax, kHistory, kPredicted, kOracle})
      for (const auto order : {kArrival, kLongestFirst, kShortestFirst})
        CHECK(play_with_chance(policy, order, seed).answers == expected);
  }
}

TEST_CASE("reservations: with a predictor that is slow, or wrong by design, answers are the same") {
  const auto always = [](std::uint32_t length) { return [length] { return length; }; };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const auto expected =
        play_with_chance(ReservationPolicy::kOnDemand, AdmissionOrder::kArrival, seed).answers;
    for (const std::uint32_t length : {1U, 10U, 4'000'000'000U})
      for (const std::size_t delay : {0U, 1U, 9U, 1000U}) {  // the last one: no answer comes
        CAPTURE(length);
        CAPTURE(delay);
        const Played played = play(handing_world(ReservationPolicy::kPredicted),
                                   {.guess = always(length), .delay = delay}, seed);
        CHECK(played.answers == expected);
        CHECK(played.most_given_way <= 1);
      }
  }
}
