// SPDX-License-Identifier: Apache-2.0
// Giving up a request frees what it holds, in whatever state it is.
#include "actors/request.hpp"

#include <doctest/doctest.h>

#include <caf/exit_reason.hpp>

#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

void check_cancelled(sim::SimWorld& world, sim::SimClient& client) {
  client.cancel();
  world.settle();
  REQUIRE(client.finished());
  CHECK(client.finished()->reason == FinishReason::kCancelled);
  CHECK(world.engine().status().num_waiting == 0);
  CHECK(world.engine().status().num_running == 0);
  world.devices().ended.insert(client.id());  // not in any further batch
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("cancel: before anything has happened") {
  sim::SimWorld world(sim::small_settings());
  world.run();
  const auto client = submit(world, letters("hello", 20));
  check_cancelled(world, *client);
}

TEST_CASE("cancel: after any number of messages") {
  for (int num_steps = 1; num_steps < 60; ++num_steps) {
    sim::SimWorld world(sim::small_settings());
    const auto client = submit(world, letters(std::string(40, 'x'), 20));
    for (int i = 0; i < num_steps; ++i)
      if (!world.step()) world.advance();
    if (client->has_ended()) break;
    check_cancelled(world, *client);
  }
}

TEST_CASE("cancel: while waiting behind others, who go on") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  sim::SimWorld world(settings);
  const auto first = submit(world, letters("hello", 40));
  const auto second = submit(world, letters("hello", 40, 2));
  world.run([&] { return first->text().size() > 3; });
  CHECK(world.engine().status().num_waiting == 1);
  second->cancel();
  world.settle();
  CHECK(second->finished()->reason == FinishReason::kCancelled);
  REQUIRE(world.run());
  CHECK(first->finished()->reason == FinishReason::kLength);
  CHECK(leftovers(world) == "");
}

TEST_CASE("cancel: pages in flight come back when the batch is done, not before") {
  auto settings = sim::small_settings();
  settings.options.serving.cache_policy = EvictionPolicy::kNone;
  settings.options.serving.max_in_flight = 1;
  sim::SimWorld world(settings);
  const auto client = submit(world, letters("hello", 40));
  world.run([&] { return client->text().size() > 10; });
  REQUIRE(world.scheduler().num_in_flight() == 1);
  client->cancel();
  world.settle();
  CHECK(world.pages().counts().running > 0);
  world.advance();
  world.settle();
  CHECK(world.pages().counts().running == 0);
  CHECK(world.engine().status().pages_running == 0);
}

TEST_CASE("cancel: while its prompt is encoded elsewhere") {
  auto settings = sim::small_settings();
  settings.device.description.context_length = 8192;
  settings.device.description.num_pages = 4096;
  sim::SimWorld world(settings);
  world.run();
  const auto client = submit(world, letters(std::string(5000, 'x'), 20));
  world.step();  // begin: off to the encoder
  check_cancelled(world, *client);
}

TEST_CASE("cancel: while it is paused") {
  auto settings = sim::small_settings();
  settings.options.pause_bytes = 5;
  sim::SimWorld world(settings);
  sim::ClientPlan plan;
  plan.request = letters("hello", 60);
  plan.read_interval = std::chrono::hours(1);
  const auto client = submit(world, plan);
  world.run_for(std::chrono::seconds(1));
  CHECK(client->text().size() > 5);
  CHECK(world.engine().environment().board->num_paused == 1);
  client->cancel();
  world.settle();
  CHECK(client->finished()->reason == FinishReason::kCancelled);
  CHECK(world.engine().environment().board->num_paused == 0);
  CHECK(leftovers(world) == "");
}

// One conversation that others have pushed off a small device comes back.
std::shared_ptr<sim::SimClient> come_back(sim::SimWorld& world) {
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    submit(world, letters(std::string(40, letter), 20));
    REQUIRE(world.run());
  }
  return submit(world, letters(std::string(41, 'a'), 20));
}

// Given up after any number of messages: what is in flight is waited for, nothing else.
void check_cancelled_on_the_way(const sim::SimSettings& settings) {
  std::uint64_t num_left_in_load = 0, num_left_in_read = 0;
  for (int num_steps = 1; num_steps < 60; ++num_steps) {
    CAPTURE(num_steps);
    sim::SimWorld world(settings);
    if (settings.disk.file) settings.disk.file->pages.assign(settings.disk.file->pages.size(), {});
    const auto client = come_back(world);
    for (int i = 0; i < num_steps; ++i)
      if (!world.step()) world.advance();
    if (client->has_ended()) break;
    client->cancel();
    world.settle();
    while (world.scheduler().num_in_flight() > 0 && world.advance()) world.settle();
    CHECK(world.pages().counts().running == 0);
    CHECK(client->finished()->reason == FinishReason::kCancelled);
    REQUIRE(world.run());
    CHECK(leftovers(world) == "");
    num_left_in_load += world.devices().num_left_in_load;
    num_left_in_read += world.devices().num_left_in_read;
  }
  CHECK((settings.disk.file ? num_left_in_read : num_left_in_load) > 0);
}

TEST_CASE("cancel: while its pages are loaded from the host") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 32;
  settings.device.description.num_host_pages = 100;
  check_cancelled_on_the_way(settings);
}

TEST_CASE("cancel: while its pages are read from the disk") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 32;
  settings.device.description.num_host_pages = 20;
  settings.disk.file = std::make_shared<sim::SimFile>();
  settings.disk.file->pages.resize(100);
  check_cancelled_on_the_way(settings);
}

TEST_CASE("cancel: twice, after the end, or of nobody, does nothing") {
  sim::SimWorld world(sim::small_settings());
  const auto client = submit(world, letters("hello", 5));
  REQUIRE(world.run());
  world.engine().cancel(client->id());
  world.engine().cancel(999);
  world.engine().resume(999);
  world.settle();
  CHECK(client->finished()->reason == FinishReason::kLength);
  CHECK(leftovers(world) == "");
}

TEST_CASE("cancel: a request actor that dies still answers and frees its sequence") {
  sim::SimWorld world(sim::small_settings());
  const auto sink = std::make_shared<RecordingSink>();
  // A sink that throws kills the actor that delivers to it.
  class ThrowingSink final : public ResponseSink {
   public:
    explicit ThrowingSink(std::shared_ptr<RecordingSink> sink) : sink_(std::move(sink)) {}
    void deliver(ResponseEvent event) override {
      if (std::holds_alternative<TextDelta>(event)) throw std::runtime_error("no more room");
      sink_->deliver(std::move(event));
    }
    std::size_t pending_bytes() const noexcept override { return 0; }

   private:
    std::shared_ptr<RecordingSink> sink_;
  };
  const auto id = world.engine().submit(letters("hello", 50), std::make_shared<ThrowingSink>(sink));
  world.run([&] { return sink->num_terminal() > 0; });
  world.devices().ended.insert(id);
  REQUIRE(world.run());
  CHECK(sink->num_terminal() == 1);
  REQUIRE(sink->error());
  CHECK(sink->error()->kind == ApiErrorKind::kInternal);
  CHECK(leftovers(world) == "");
}

TEST_CASE("actors: a message that nobody expects is counted, not printed") {
  sim::SimWorld world(sim::small_settings());
  const auto plain = caf::actor_cast<caf::actor>(world.engine().actors().scheduler);
  caf::anon_send(plain, std::string("a secret prompt"));
  world.settle();
  CHECK(world.metric("troupe_unexpected_messages_total") == 1);
}

}  // namespace
}  // namespace troupe
