// SPDX-License-Identifier: Apache-2.0
// Workers die, streams go on: no token twice, none lost (the simulated clients
// see to that).
#include "actors/supervisor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "policy/admitting/encoding_lanes.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

using sim::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Fault kEveryFault[] = {Fault::kBatchError, Fault::kThrowInSubmit, Fault::kThrowInCollect,
                                 Fault::kThrowSomethingElse};

TEST_CASE("failure: a worker dies at any batch, however, and the streams go on") {
  for (const Fault fault : kEveryFault) {
    for (std::uint64_t fatal = 1; fatal <= 19; fatal += 3) {
      sim::SimWorld world(sim::small_settings());
      world.devices().choose_fault = [=](const Batch&, std::uint64_t number) {
        return number == fatal ? fault : Fault::kNone;
      };
      std::vector<std::shared_ptr<sim::SimClient>> clients;
      for (int i = 0; i < 5; ++i) clients.push_back(submit(world, letters("hello", 20, i)));
      REQUIRE(world.run());
      for (const auto& client : clients) CHECK(client->finished());
      CHECK(world.devices().num_devices == 2);
      CHECK(leftovers(world) == "");
    }
  }
}

TEST_CASE("failure: what was known of the old device's pages is void") {
  sim::SimWorld world(sim::small_settings());
  const auto first = submit(world, letters(std::string(40, 'x'), 5));
  REQUIRE(world.run());
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 12 ? Fault::kBatchError : Fault::kNone;
  };
  // The same prompt: its pages are shared, until the device is gone.
  const auto second = submit(world, letters(std::string(40, 'x'), 30));
  const auto third = submit(world, letters(std::string(40, 'x'), 30, 3));
  REQUIRE(world.run());
  CHECK(second->finished());
  CHECK(third->finished());
  CHECK(world.devices().num_devices == 2);
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: too many deaths fail the engine and tell everybody") {
  auto settings = sim::small_settings();
  settings.options.max_restarts = 2;
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number % 3 == 0 ? Fault::kBatchError : Fault::kNone;
  };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 5; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    world.engine().submit(letters("hello", 50, i), sinks.back());
  }
  REQUIRE(world.run());
  CHECK(world.engine().status().state == EngineState::kFailed);
  CHECK(world.devices().num_devices == 3);
  int num_blamed = 0;
  for (const auto& sink : sinks) {
    CHECK(sink->num_terminal() == 1);
    REQUIRE(sink->error());
    // The last death may be blamed on the one that was alone with it.
    num_blamed += sink->error()->kind == ApiErrorKind::kInternal ? 1 : 0;
  }
  CHECK(num_blamed <= 1);
  const auto late = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 5), late);
  REQUIRE(world.run());
  CHECK(late->error()->kind == ApiErrorKind::kUnavailable);
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: deaths far apart are forgiven") {
  auto settings = sim::small_settings();
  settings.options.max_restarts = 1;
  settings.options.restart_window = std::chrono::seconds(1);
  settings.device.batch_time = std::chrono::milliseconds(100);
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number % 20 == 0 ? Fault::kBatchError : Fault::kNone;
  };
  const auto client = submit(world, letters("hello", 100));
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(world.devices().num_devices > 4);
}

TEST_CASE("failure: the request that kills workers is found and given up, others go on") {
  sim::SimWorld world(sim::small_settings());
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(submit(world, letters("hello", 30, i)));
  const auto poison = clients[2]->id();
  world.devices().choose_fault = [=](const Batch& batch, std::uint64_t) {
    for (const auto& slice : batch.slices)
      if (slice.sequence == poison && slice.context_length >= 15) return Fault::kBatchError;
    return Fault::kNone;
  };
  REQUIRE(world.run());
  for (const auto& client : clients) {
    if (client->id() == poison) {
      REQUIRE(client->error());
      CHECK(client->error()->kind == ApiErrorKind::kInternal);
      CHECK(client->text().size() > 5);
    } else {
      CHECK(client->finished());
    }
  }
  CHECK(world.devices().num_devices == 3);
  CHECK(world.engine().status().state == EngineState::kReady);
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: many that kill workers at once are all found, by any death, and others go on") {
  for (const Fault fault : kEveryFault) {
    for (const std::uint32_t max_in_flight : {1U, 2U, 5U}) {
      auto settings = sim::small_settings();
      settings.options.serving.max_in_flight = max_in_flight;
      settings.options.max_restarts = 3;
      sim::SimWorld world(settings);
      std::vector<std::shared_ptr<sim::SimClient>> clients;
      // The first is there to the end.
      clients.push_back(submit(world, letters("hello", 120, 99)));
      for (int i = 1; i < 12; ++i) clients.push_back(submit(world, letters("hello", 30, i)));
      // At their prompts, in the midst of their answers, and at one moment.
      const std::map<std::uint64_t, std::uint32_t> poisons = {{clients[1]->id(), 15},
                                                              {clients[2]->id(), 15},
                                                              {clients[4]->id(), 1},
                                                              {clients[7]->id(), 20},
                                                              {clients[10]->id(), 5}};
      world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
        for (const auto& slice : batch.slices) {
          const auto found = poisons.find(slice.sequence);
          if (found != poisons.end() && slice.context_length + slice.num_tokens >= found->second)
            return fault;
        }
        return Fault::kNone;
      };
      REQUIRE(world.run());
      for (const auto& client : clients) {
        if (poisons.contains(client->id())) {
          REQUIRE(client->error());
          CHECK(client->error()->kind == ApiErrorKind::kInternal);
        } else {
          CHECK(client->finished());
        }
      }
      CHECK(world.devices().num_devices <= 1 + 2 * poisons.size());
      CHECK(world.engine().status().state == EngineState::kReady);
      CHECK(leftovers(world) == "");
    }
  }
}

TEST_CASE("failure: a lone request that kills whatever runs it costs two workers") {
  for (const Fault fault : kEveryFault) {
    auto settings = sim::small_settings();
    settings.options.max_restarts = 2;
    sim::SimWorld world(settings);
    world.devices().choose_fault = [=](const Batch&, std::uint64_t) { return fault; };
    const auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(letters("hello", 30), sink);
    REQUIRE(world.run());
    REQUIRE(sink->error());
    CHECK(sink->error()->kind == ApiErrorKind::kInternal);
    CHECK(world.devices().num_devices == 3);
    CHECK(world.engine().status().state == EngineState::kReady);
    world.devices().choose_fault = {};
    const auto next = submit(world, letters("hello", 30));
    REQUIRE(world.run());
    CHECK(next->finished());
  }
}

TEST_CASE("failure: a request that kills whatever runs it costs a third worker after a prefix hit") {
  for (const bool has_prefix : {false, true}) {
    sim::SimWorld world(sim::small_settings());
    if (has_prefix) {
      submit(world, letters(std::string(40, 'x'), 5));
      REQUIRE(world.run());
    }
    const auto other = submit(world, letters("hello", 60));
    const auto poison = submit(world, letters(std::string(40, 'x'), 30, 1));
    world.devices().choose_fault = [id = poison->id()](const Batch& batch, std::uint64_t) {
      const bool runs_it = std::any_of(batch.slices.begin(), batch.slices.end(),
                                       [id](const SequenceSlice& slice) { return slice.sequence == id; });
      return runs_it ? Fault::kBatchError : Fault::kNone;
    };
    REQUIRE(world.run());
    CHECK(other->finished());
    REQUIRE(poison->error());
    CHECK(world.devices().num_devices == (has_prefix ? 4 : 3));
  }
}

TEST_CASE("failure: after a death each of those in flight is tried alone, then all go on together") {
  sim::SimWorld world(sim::small_settings());
  std::set<std::uint64_t> tried;
  std::size_t num_tried_together = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t number) {
    if (number == 20) return Fault::kThrowSomethingElse;
    if (number < 20) return Fault::kNone;
    const bool has_all_run =
        std::all_of(batch.slices.begin(), batch.slices.end(),
                    [&](const SequenceSlice& slice) { return tried.contains(slice.sequence); });
    if (!has_all_run) {
      CHECK(batch.slices.size() == 1);
      CHECK(world.scheduler().num_in_flight() == 1);
    }
    num_tried_together = std::max(num_tried_together, batch.slices.size());
    for (const auto& slice : batch.slices) tried.insert(slice.sequence);
    return Fault::kNone;
  };
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(submit(world, letters("hello", 30, i)));
  REQUIRE(world.run());
  for (const auto& client : clients) CHECK(client->finished());
  CHECK(num_tried_together == 4);
  CHECK(world.devices().num_devices == 2);
}

// Whatever is run kills: it is not the requests.
TEST_CASE("failure: a device on which nothing works fails the engine, not one request after the other") {
  auto settings = sim::small_settings();
  settings.options.max_restarts = 3;
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t) { return Fault::kBatchError; };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    world.engine().submit(letters("hello", 50, i), sinks.back());
  }
  REQUIRE(world.run());
  CHECK(world.engine().status().state == EngineState::kFailed);
  CHECK(world.devices().num_devices == 4);
  int num_blamed = 0;
  for (const auto& sink : sinks) {
    REQUIRE(sink->error());
    num_blamed += sink->error()->kind == ApiErrorKind::kInternal ? 1 : 0;
  }
  CHECK(num_blamed <= 3);
}

TEST_CASE("failure: a device that does not come up again counts as a death") {
  auto settings = sim::small_settings();
  settings.options.max_restarts = 2;
  int num_refusals = 0;
  settings.fails_to_start = [&](std::uint64_t number) { return number > 1 && ++num_refusals > 0; };
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 5 ? Fault::kBatchError : Fault::kNone;
  };
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 50), sink);
  REQUIRE(world.run());
  CHECK(num_refusals == 2);
  CHECK(world.engine().status().state == EngineState::kFailed);
  CHECK(sink->error()->message.find("simulated failure to start") != std::string::npos);
}

TEST_CASE("failure: a device of this process that hangs is noticed and fails the engine") {
  sim::SimWorld world(sim::small_settings());
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 5 ? Fault::kNeverCompletes : Fault::kNone;
  };
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 50), sink);
  world.run_for(seconds(8));
  CHECK(world.engine().status().trouble == Trouble::kNone);
  world.run_for(seconds(3));
  CHECK(world.engine().status().trouble == Trouble::kDeviceHangs);
  CHECK(world.engine().status().state == EngineState::kReady);
  CHECK(sink->num_terminal() == 0);
  world.run_for(seconds(60));
  CHECK(world.engine().status().state == EngineState::kFailed);
  REQUIRE(sink->error());
  CHECK(sink->error()->message.find("does not finish") != std::string::npos);
}

TEST_CASE("failure: a device that hangs in a process of its own is replaced, and streams go on") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 5 ? Fault::kNeverCompletes : Fault::kNone;
  };
  const auto client = submit(world, letters("hello", 50));
  // What could be read of the trouble on the way, in order.
  std::vector<Trouble> troubles = {Trouble::kNone};
  for (int i = 0; i < 200; ++i) {
    world.after(milliseconds(50) * i, [&] {
      const Trouble trouble = world.engine().status().trouble;
      if (trouble != troubles.back()) troubles.push_back(trouble);
    });
  }
  world.run_for(seconds(10));
  CHECK(client->finished());
  CHECK(troubles.size() <= 3);
  for (const Trouble trouble : troubles)
    CHECK((trouble == Trouble::kNone || trouble == Trouble::kReplacingDevice));
  CHECK(world.devices().num_devices == 2);
  CHECK(world.engine().status().state == EngineState::kReady);
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: a batch that takes long is no hang, whatever the time before it") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  settings.device.batch_time = seconds(40);  // the first of a device: nothing is known of it
  sim::SimWorld world(settings);
  const auto client = submit(world, letters("hello", 3));
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(world.devices().num_devices == 1);
}

TEST_CASE("failure: a long prefill after short steps is no hang") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  settings.device.token_time = seconds(5);
  sim::SimWorld world(settings);
  submit(world, letters("h", 3));
  REQUIRE(world.run());
  const auto client = submit(world, letters("many letters", 3));  // 8 a batch: 40 s
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(world.devices().num_devices == 1);
  CHECK(world.engine().status().trouble == Trouble::kNone);
}

// As after SIGSTOP and SIGCONT, or when a virtual machine was frozen: the clock
// has gone on, the batch's end is yet to be heard of.
TEST_CASE("failure: a server that stood still for an hour blames neither device nor actors") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  settings.device.batch_time = milliseconds(100);
  sim::SimWorld world(settings);
  const auto client = submit(world, letters("hello", 50));
  world.run_for(seconds(2));
  world.engine().watch(world.now());
  world.stand_still(std::chrono::hours(1));
  world.engine().watch(world.now());
  CHECK(world.engine().status().trouble == Trouble::kNone);
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(world.devices().num_devices == 1);
  CHECK(world.engine().status().state == EngineState::kReady);
}

TEST_CASE("failure: a device that hangs while nobody is left to wait is replaced too") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 5 ? Fault::kNeverCompletes : Fault::kNone;
  };
  const auto client = submit(world, letters("hello", 50));
  world.run_for(seconds(1));
  world.engine().cancel(client->id());
  client->expect_cancel();
  world.run_for(seconds(10));
  CHECK(world.devices().num_devices == 2);
  REQUIRE(world.run());
  CHECK(world.engine().status().trouble == Trouble::kNone);
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: actors that do not act are noticed from outside, and fail the engine after a minute") {
  sim::SimWorld world(sim::small_settings());
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 50), sink);
  auto now = world.now();
  const auto watch_for = [&](seconds time) {
    for (const auto end = now + time; now < end; now += milliseconds(200)) world.engine().watch(now);
  };
  watch_for(seconds(9));
  CHECK(world.engine().status().trouble == Trouble::kNone);
  watch_for(seconds(2));
  CHECK(world.engine().status().trouble == Trouble::kEngineHangs);
  world.settle();  // they act again
  watch_for(seconds(1));
  CHECK(world.engine().status().trouble == Trouble::kNone);
  watch_for(seconds(70));
  CHECK(world.engine().status().state == EngineState::kFailed);
  REQUIRE(world.run());
  REQUIRE(sink->error());
  CHECK(sink->error()->message.find("have not acted") != std::string::npos);
}

// Of ours, as a lost message would be: here a device that has no slot for anybody.
TEST_CASE("failure: a device that is left without work while requests wait fails the engine") {
  auto settings = sim::small_settings();
  settings.device.description.num_slots = 0;
  settings.options.serving.max_queue_time = std::chrono::hours(1);
  sim::SimWorld world(settings);
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 5), sink);
  world.run_for(seconds(9));
  CHECK(world.engine().status().trouble == Trouble::kNone);
  world.run_for(seconds(3));
  CHECK(world.engine().status().trouble == Trouble::kEngineHangs);
  world.run_for(seconds(60));
  CHECK(world.engine().status().state == EngineState::kFailed);
  REQUIRE(world.run());
  REQUIRE(sink->error());
  CHECK(sink->error()->message.find("gets no batch") != std::string::npos);
}

TEST_CASE("failure: idle actors are asked for no sign") {
  sim::SimWorld world(sim::small_settings());
  REQUIRE(world.run());
  const auto before = world.num_steps();
  for (int i = 0; i < 100; ++i) {
    world.engine().watch(world.now() + seconds(i));
    REQUIRE(world.run());
  }
  CHECK(world.num_steps() == before);
  CHECK(world.engine().status().trouble == Trouble::kNone);
}

TEST_CASE("failure: a request whose batches never end is failed after two devices, not the engine") {
  auto settings = sim::small_settings();
  settings.device.can_be_abandoned = true;
  settings.options.max_restarts = 5;
  sim::SimWorld world(settings);
  const auto poison = submit(world, letters("hello", 30));
  world.devices().choose_fault = [=](const Batch& batch, std::uint64_t) {
    for (const auto& slice : batch.slices)
      if (slice.sequence == poison->id() && slice.context_length >= 15) return Fault::kNeverCompletes;
    return Fault::kNone;
  };
  world.run_for(std::chrono::seconds(400));
  REQUIRE(world.run());
  REQUIRE(poison->error());
  CHECK(poison->error()->kind == ApiErrorKind::kInternal);
  CHECK(world.engine().status().state == EngineState::kReady);
  CHECK(leftovers(world) == "");
}

TEST_CASE("failure: the death of any other long-lived actor fails the engine") {
  for (int victim = 0; victim < 4; ++victim) {
    auto owner = std::make_unique<sim::SimWorld>(sim::small_settings());
    sim::SimWorld& world = *owner;
    const auto census = world.engine().environment().census;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>());
      world.engine().submit(letters("hello", 50, i), sinks.back());
    }
    world.run_for(std::chrono::milliseconds(3));
    const auto& actors = world.engine().actors();
    if (victim == 0) send_stop(actors.scheduler);
    if (victim == 1) send_stop(actors.tier);
    if (victim == 2) send_stop(actors.encoder);
    if (victim == 3) send_stop(world.engine().supervisor());
    REQUIRE(world.run());
    CHECK(world.engine().status().state == EngineState::kFailed);
    CHECK(world.engine().environment().board->failure().find("has died") != std::string::npos);
    for (const auto& sink : sinks) CHECK(sink->num_terminal() == 1);
    owner.reset();
    CHECK(census->count() == 0);
  }
}

TEST_CASE("failure: every actor is gone when the engine has stopped") {
  for (const auto policy : {ReservationPolicy::kOnDemand, ReservationPolicy::kPredicted}) {
    std::shared_ptr<ActorCensus> census;
    {
      auto settings = sim::small_settings();
      settings.options.serving.reservation = policy;
      sim::SimWorld world(settings);
      census = world.engine().environment().census;
      submit(world, letters("hello", 50));
      world.run_for(std::chrono::milliseconds(1));
      // scheduler, tier, supervisor, worker and its runner, request; encoder and its threads; predictor
      const std::size_t num_predictors = policy == ReservationPolicy::kPredicted ? 1 : 0;
      CHECK(census->count() == 7 + EncodingLanes::kNumLanes + num_predictors);
      world.engine().environment().registry->cancel_all();
    }
    CHECK(census->count() == 0);
  }
}

}  // namespace
}  // namespace troupe
