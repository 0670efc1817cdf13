// SPDX-License-Identifier: Apache-2.0
// Two flows, one of which wants everything.
#include "actors/scheduler.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

using Sinks = std::vector<std::shared_ptr<RecordingSink>>;

std::shared_ptr<RecordingSink> submit_of(sim::SimWorld& world, const std::string& flow,
                                         GenerationRequest request) {
  request.flow = flow;
  auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(std::move(request), sink);
  return sink;
}

// Each is known to the scheduler before the next comes.
Sinks submit_many(sim::SimWorld& world, const std::string& flow, int count, std::uint32_t max_tokens) {
  Sinks sinks;
  for (int i = 0; i < count; ++i) {
    sinks.push_back(submit_of(world, flow, letters("hello", max_tokens, i + 1)));
    world.settle();
  }
  return sinks;
}

int num_failed(const Sinks& sinks, ApiErrorKind kind) {
  int count = 0;
  for (const auto& sink : sinks) count += sink->error() && sink->error()->kind == kind ? 1 : 0;
  return count;
}

double refused(const sim::SimWorld& world, const std::string& reason) {
  return world.metric("troupe_requests_refused_total{model_name=\"simulation\",reason=\"" + reason + "\"}");
}

void run_until_text(sim::SimWorld& world, const RecordingSink& sink, std::size_t num_letters) {
  REQUIRE(world.run([&] { return sink.text().size() >= num_letters; }));
}

TEST_CASE("fairness: a full queue makes room for a flow that has fewer requests") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_waiting = 4;
  sim::SimWorld world(settings);
  world.settle();
  const Sinks many = submit_many(world, "a", 8, 20);  // one runs, four wait
  CHECK(num_failed(many, ApiErrorKind::kOverloaded) == 3);
  const auto one = submit_of(world, "b", letters("hello", 20));
  world.settle();
  CHECK_FALSE(one->error());
  REQUIRE(many[4]->error());  // the newest of those that waited
  CHECK(many[4]->error()->kind == ApiErrorKind::kDisplaced);
  CHECK(many[4]->num_terminal() == 1);
  CHECK_FALSE(many[4]->is_accepted());  // so it is answered by a status
  CHECK(refused(world, "displaced") == 1);
  CHECK(world.metric("troupe_num_flows_waiting") == 2);
  REQUIRE(world.run());
  CHECK(one->finished());
  CHECK(num_failed(many, ApiErrorKind::kDisplaced) == 1);
  CHECK(world.metric("troupe_num_flows_waiting") == 0);
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: who has the place of another answer is let in by a full queue, and not put out of it") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_waiting = 1;
  sim::SimWorld world(settings);
  world.settle();
  const Sinks many = submit_many(world, "a", 2, 20);  // one runs, one waits
  const auto at_door = submit_of(world, "a", letters("hello", 5));
  auto next = letters("hello", 5);
  next.form_place = std::make_shared<const int>(1);
  const auto later = submit_of(world, "a", std::move(next));
  world.settle();
  world.settle();
  REQUIRE(at_door->error());
  CHECK(at_door->error()->kind == ApiErrorKind::kOverloaded);
  CHECK_FALSE(later->error());
  const auto one = submit_of(world, "b", letters("hello", 5));
  world.settle();
  world.settle();
  REQUIRE(many[1]->error());
  CHECK(many[1]->error()->kind == ApiErrorKind::kDisplaced);
  REQUIRE(world.run());
  CHECK(later->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: a request that has begun its answer is never put out of the queue") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 2;
  settings.options.serving.max_waiting = 1;
  sim::SimWorld world(settings);
  world.settle();
  const Sinks many = submit_many(world, "a", 2, 60);
  run_until_text(world, *many[1], kLeastProgress + 4);
  const auto one = submit_of(world, "b", letters("hello", 60));  // takes the slot of many[1]
  run_until_text(world, *one, 1);
  CHECK(world.metric("troupe_num_preemptions_total") == 1);
  CHECK(world.scheduler().core().num_waiting() == 1);  // the queue is full
  const auto another = submit_of(world, "c", letters("hello", 5));
  world.settle();
  REQUIRE(another->error());
  CHECK(another->error()->kind == ApiErrorKind::kOverloaded);
  REQUIRE(world.run());
  for (const auto& sink : many) CHECK(sink->finished());
  CHECK(one->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: a flow that holds all slots gives up those beyond its share, and no more") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 4;
  settings.options.serving.max_batch_tokens = 64;
  settings.device.description.num_pages = 400;
  sim::SimWorld world(settings);
  world.settle();
  const Sinks many = submit_many(world, "a", 8, 100);
  run_until_text(world, *many[3], kLeastProgress + 4);
  const std::uint64_t begin = world.devices().num_batches;
  const Sinks few = submit_many(world, "b", 4, 100);
  run_until_text(world, *few[1], 1);
  // Those in flight, its prompt's own, and as many for the second to follow the first.
  CHECK(world.devices().num_batches - begin <= 3 * settings.options.serving.max_in_flight);
  CHECK(few[0]->text().size() > 0);
  CHECK(few[2]->text().empty());
  run_until_text(world, *few[0], 50);
  CHECK(world.metric("troupe_num_preemptions_total") == 2);
  REQUIRE(world.run());
  for (const auto& sink : many) CHECK(sink->finished());
  for (const auto& sink : few) CHECK(sink->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: flows without a slot of their own get turns of a certain length") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.device.description.context_length = 4000;
  settings.device.description.num_pages = 4000;
  sim::SimWorld world(settings);
  world.settle();
  const auto long_one = submit_of(world, "a", letters("hello", 3000));
  run_until_text(world, *long_one, 10);
  const auto other = submit_of(world, "b", letters("world", 3000));
  run_until_text(world, *other, 1);
  const std::size_t turn = kTurn / FairQueue::kDrawnTokenCost;
  CHECK(long_one->text().size() >= turn);
  CHECK(long_one->text().size() <= turn + 20);
  REQUIRE(world.run());
  CHECK(long_one->finished());
  CHECK(other->finished());
  // 3,000 tokens each, in turns of at most 1,024 once both have begun.
  CHECK(world.metric("troupe_num_preemptions_total") >= 4);
  CHECK(world.metric("troupe_num_preemptions_total") <= 12);
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: a flow that holds all pages gives up some for another one's request") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 8;
  settings.options.serving.max_batch_tokens = 64;
  settings.device.description.num_pages = 40;  // of 4 tokens
  settings.device.description.context_length = 150;
  sim::SimWorld world(settings);
  world.settle();
  const auto large = submit_of(world, "a", letters(std::string(100, 'x'), 50));
  run_until_text(world, *large, kLeastProgress + 6);
  const auto small = submit_of(world, "b", letters(std::string(60, 'y'), 5));
  REQUIRE(world.run([&] { return small->finished().has_value(); }));
  CHECK_FALSE(large->finished());
  CHECK(world.metric("troupe_num_preemptions_total") == 1);
  REQUIRE(world.run());
  CHECK(large->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: long prompts of one flow do not hold up another's") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 8;
  settings.options.serving.max_batch_tokens = 16;
  settings.options.serving.prefill_chunk = 8;
  settings.device.description.num_pages = 1000;
  sim::SimWorld world(settings);
  world.settle();
  Sinks many;
  for (char letter = 'a'; letter < 'g'; ++letter)
    many.push_back(submit_of(world, "a", letters(std::string(100, letter), 5)));
  world.settle();
  const std::uint64_t begin = world.devices().num_batches;
  const auto one = submit_of(world, "b", letters("hello", 5));
  run_until_text(world, *one, 1);
  CHECK(world.devices().num_batches - begin <= 2 * settings.options.serving.max_in_flight);
  for (const auto& sink : many) CHECK(sink->text().empty());
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("fairness: requests on their way to the queue leave room for those of another flow") {
  auto settings = sim::small_settings();
  settings.options.serving.max_waiting = 4;
  sim::SimWorld world(settings);  // no actor has handled a message yet
  Sinks many;
  for (int i = 0; i < 6; ++i) many.push_back(submit_of(world, "a", letters("hello", 5)));
  Sinks few;
  for (int i = 0; i < 3; ++i) few.push_back(submit_of(world, "b", letters("hello", 5)));
  CHECK(world.engine().environment().door->num_inside() == 6);
  REQUIRE(world.run());
  CHECK(num_failed(few, ApiErrorKind::kOverloaded) == 1);
  CHECK(world.engine().environment().door->num_inside() == 0);
  CHECK(leftovers(world) == "");
}

}  // namespace
}  // namespace troupe
