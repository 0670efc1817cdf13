// SPDX-License-Identifier: Apache-2.0
// The engine as it is shipped: real threads, a device that costs nothing.
#include "actors/engine.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gpu/noop/noop_device.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/support/eventually.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Fixture {
  explicit Fixture(NoopDeviceSettings settings = letters_device(), EngineOptions options = {})
      : engine(
            byte_model(), [settings](WorkerId) { return std::make_unique<NoopDevice>(settings); }, options,
            metrics) {}

  Metrics metrics{"bytes"};
  Engine engine;
};

GenerationRequest text_request(std::string text, std::uint32_t max_tokens) {
  GenerationRequest request;
  request.id = "test";
  request.prompt = TextPrompt{std::move(text)};
  request.max_tokens = max_tokens;
  return request;
}

// A no-op device with something of the test's in front of submit and at its end.
class HookedDevice final : public Device {
 public:
  HookedDevice(std::function<void(const Batch&)> before_submit, std::function<void()> at_end,
               bool returns_at_once = true)
      : before_submit_(std::move(before_submit)),
        at_end_(std::move(at_end)),
        returns_at_once_(returns_at_once) {}
  ~HookedDevice() override { at_end_(); }
  const DeviceDescription& description() const override { return device_.description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    before_submit_(*batch);
    return device_.submit(std::move(program), std::move(batch));
  }
  Ticket completed() const noexcept override { return device_.completed(); }
  BatchResult collect(Ticket ticket) override { return device_.collect(ticket); }
  void set_listener(std::function<void()> listener) override { device_.set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool returns_at_once() const override { return returns_at_once_; }

 private:
  std::function<void(const Batch&)> before_submit_;
  std::function<void()> at_end_;
  bool returns_at_once_;
  NoopDevice device_{letters_device()};
};

// Tells which thread writes a request's end.
class EndingThread final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    if (is_terminal(event)) thread.set_value(std::this_thread::get_id());
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

  std::promise<std::thread::id> thread;
};

TEST_CASE("engine: a prompt is answered token by token and ends once") {
  Fixture fixture;
  auto sink = std::make_shared<RecordingSink>();
  fixture.engine.submit(text_request("hello", 10), sink);
  REQUIRE(sink->wait_for_end());
  CHECK(sink->text() == "fghijklmno");
  REQUIRE(sink->finished());
  CHECK(sink->finished()->reason == FinishReason::kLength);
  CHECK(sink->finished()->usage.prompt_tokens == 5);
  CHECK(sink->finished()->usage.completion_tokens == 10);
  CHECK(sink->events().size() == 12);
}

TEST_CASE("engine: many requests at once all end with their own text") {
  Fixture fixture;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 200; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    fixture.engine.submit(text_request(std::string(1 + i % 26, 'x'), 40), sinks.back());
  }
  for (int i = 0; i < 200; ++i) {
    REQUIRE(sinks[i]->wait_for_end());
    CHECK(sinks[i]->num_terminal() == 1);
    CHECK(sinks[i]->text().size() == 40);
    CHECK(sinks[i]->text().front() == 'a' + (1 + i % 26) % 26);
  }
  CHECK(fixture.engine.status().trouble == Trouble::kNone);
}

TEST_CASE("engine: cancel ends a request of a device that is busy") {
  auto settings = letters_device();
  settings.iteration_time = milliseconds(5);
  Fixture fixture(settings);
  auto sink = std::make_shared<RecordingSink>();
  const RequestId id = fixture.engine.submit(text_request("hello", 400), sink);
  fixture.engine.cancel(id);
  REQUIRE(sink->wait_for_end());
  REQUIRE(sink->finished());
  CHECK(sink->finished()->reason == FinishReason::kCancelled);
}

TEST_CASE("engine: drain refuses new requests and lets old ones finish") {
  auto settings = letters_device();
  settings.iteration_time = milliseconds(1);
  Fixture fixture(settings);
  auto old_one = std::make_shared<RecordingSink>();
  fixture.engine.submit(text_request("hello", 50), old_one);
  std::thread draining([&] { fixture.engine.drain(seconds(20)); });
  CHECK(test::eventually([&] { return fixture.engine.status().state == EngineState::kDraining; }));
  auto late_one = std::make_shared<RecordingSink>();
  fixture.engine.submit(text_request("hello", 5), late_one);
  draining.join();
  REQUIRE(late_one->wait_for_end());
  REQUIRE(late_one->error());
  CHECK(late_one->error()->kind == ApiErrorKind::kUnavailable);
  REQUIRE(old_one->wait_for_end());
  CHECK(old_one->text().size() == 50);
}

TEST_CASE("engine: drain cancels what has not finished by the deadline") {
  auto settings = letters_device();
  settings.iteration_time = milliseconds(20);
  Fixture fixture(settings);
  auto sink = std::make_shared<RecordingSink>();
  fixture.engine.submit(text_request("hello", 400), sink);
  fixture.engine.drain(milliseconds(50));
  REQUIRE(sink->num_terminal() == 1);
  CHECK(sink->finished()->reason == FinishReason::kCancelled);
}

TEST_CASE("engine: a device that can't start fails the engine with its reason") {
  Metrics metrics("bytes");
  Engine engine(
      byte_model(),
      [](WorkerId) -> std::unique_ptr<Device> { throw std::runtime_error("no weights in model.bin"); }, {},
      metrics);
  auto sink = std::make_shared<RecordingSink>();
  engine.submit(text_request("hello", 5), sink);
  REQUIRE(sink->wait_for_end());
  REQUIRE(sink->error());
  CHECK(sink->error()->kind == ApiErrorKind::kUnavailable);
  CHECK(sink->error()->message.find("no weights in model.bin") != std::string::npos);
  CHECK(engine.status().state == EngineState::kFailed);
  CHECK(engine.failure() == "no weights in model.bin");
}

TEST_CASE("engine: it can be stopped at any moment, open requests are told") {
  for (int round = 0; round < 20; ++round) {
    auto sink = std::make_shared<RecordingSink>();
    {
      Fixture fixture;
      fixture.engine.submit(text_request("hello", 400), sink);
      for (int i = 0; i < round * 20; ++i) std::this_thread::yield();
      CHECK(fixture.engine.stop(seconds(10)));
    }
    CHECK(sink->num_terminal() == 1);
  }
}

TEST_CASE("engine: a device that throws is replaced and the streams go on") {
  const auto num_submits = std::make_shared<std::atomic<int>>(0);
  Metrics metrics("bytes");
  Engine engine(
      byte_model(),
      [num_submits](WorkerId) {
        return std::make_unique<HookedDevice>(
            [num_submits](const Batch& batch) {
              if (batch.slices.size() < 2) return;  // it would be taken for the cause
              const int number = ++*num_submits;
              if (number == 10 || number == 25) throw std::runtime_error("out of order");
            },
            [] {});
      },
      {}, metrics);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 8; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    engine.submit(text_request("hello", 40), sinks.back());
  }
  for (const auto& sink : sinks) {
    REQUIRE(sink->wait_for_end());
    CHECK(sink->text() == "fghijklmnopqrstuvwxyzabcdefghijklmnopqrs");
  }
  CHECK(*num_submits > 25);
  CHECK(engine.status().state == EngineState::kReady);
}

TEST_CASE("engine: a device that hangs while it ends does not hold up stop for ever") {
  const auto may_end = std::make_shared<std::atomic<bool>>(false);
  Metrics metrics("bytes");
  Engine engine(
      byte_model(),
      [may_end](WorkerId) {
        return std::make_unique<HookedDevice>(
            [](const Batch&) {},
            [may_end] { CHECK(test::eventually([&] { return may_end->load(); }, seconds(60))); });
      },
      {}, metrics);
  const auto sink = std::make_shared<RecordingSink>();
  engine.submit(text_request("hello", 5), sink);
  REQUIRE(sink->wait_for_end());
  CHECK_FALSE(engine.stop(milliseconds(50)));
  *may_end = true;
  CHECK(engine.stop(seconds(10)));
}

TEST_CASE(
    "engine: a device that returns at once is used by the thread of the actors, started and ended "
    "elsewhere") {
  for (const bool returns_at_once : {true, false}) {
    std::atomic<std::thread::id> starting, submitting, ending;
    auto sink = std::make_shared<EndingThread>();
    auto writing = sink->thread.get_future();
    {
      Metrics metrics("bytes");
      Engine engine(
          byte_model(),
          [&](WorkerId) {
            starting = std::this_thread::get_id();
            return std::make_unique<HookedDevice>(
                [&](const Batch&) { submitting = std::this_thread::get_id(); },
                [&] { ending = std::this_thread::get_id(); }, returns_at_once);
          },
          {}, metrics);
      engine.submit(text_request("hello", 5), sink);
      REQUIRE(writing.wait_for(seconds(20)) == std::future_status::ready);
    }
    CHECK((submitting.load() == writing.get()) == returns_at_once);
    CHECK(starting.load() == ending.load());  // where a device that hangs holds up no other
    CHECK(starting.load() != submitting.load());
  }
}

TEST_CASE("engine: with several actor threads, clients that come and go") {
  EngineOptions options;
  options.actor_threads = 3;
  options.serving.max_waiting = 10000;
  auto settings = letters_device();
  settings.description.num_pages = 64;  // so that some are preempted
  Fixture fixture(settings, options);
  std::vector<std::shared_ptr<RecordingSink>> sinks(600);
  std::vector<std::thread> clients;
  for (std::size_t first = 0; first < 3; ++first) {
    clients.emplace_back([&, first] {
      for (std::size_t i = first; i < sinks.size(); i += 3) {
        sinks[i] = std::make_shared<RecordingSink>();
        const auto id = fixture.engine.submit(text_request("hello there", 60), sinks[i]);
        if (i % 4 == 0) fixture.engine.cancel(id);
      }
    });
  }
  for (auto& client : clients) client.join();
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    REQUIRE(sinks[i]->wait_for_end());
    if (i % 4 != 0) CHECK(sinks[i]->text().size() == 60);
  }
  REQUIRE(fixture.engine.stop(seconds(10)));
  for (const auto& sink : sinks) CHECK(sink->num_terminal() == 1);
}

TEST_CASE("engine: long prompts are encoded aside and answered alike") {
  auto settings = letters_device();
  settings.description.num_pages = 2048;
  settings.description.context_length = 20000;
  Fixture fixture(settings);
  auto sink = std::make_shared<RecordingSink>();
  fixture.engine.submit(text_request(std::string(10000, 'x'), 3), sink);
  REQUIRE(sink->wait_for_end());
  CHECK(sink->text() == std::string({static_cast<char>('a' + 10000 % 26), static_cast<char>('a' + 10001 % 26),
                                     static_cast<char>('a' + 10002 % 26)}));
}

}  // namespace
}  // namespace troupe
