// SPDX-License-Identifier: Apache-2.0
// Who is let in, and what the others are told.
#include "actors/scheduler.hpp"

#include <doctest/doctest.h>

#include "actors/request/tenant_account.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

ApiError refusal_of(GenerationRequest request, sim::SimSettings settings = sim::small_settings()) {
  sim::SimWorld world(settings);
  const auto client = submit_refused(world, std::move(request));
  world.run();
  REQUIRE(client->error());
  CHECK(leftovers(world) == "");
  return *client->error();
}

TEST_CASE("admission: a prompt longer than the context is refused with both numbers") {
  const ApiError error = refusal_of(letters(std::string(128, 'x'), 1));
  CHECK(error.kind == ApiErrorKind::kContextTooLong);
  CHECK(error.message.find("128 tokens, of which") != std::string::npos);
  CHECK(error.message.find("prompt has 128 tokens") != std::string::npos);
}

TEST_CASE("admission: an answer that may be longer than the context fills it") {
  sim::SimWorld world(sim::small_settings());
  const auto client = submit(world, letters("hello", 1000));
  world.run();
  CHECK_FALSE(client->error());
  REQUIRE(client->finished());
  CHECK(client->finished()->usage.completion_tokens == 123);
  CHECK(leftovers(world) == "");
}

TEST_CASE("admission: a prompt that all pages together could not hold is refused") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 10;
  const ApiError error = refusal_of(letters(std::string(40, 'x'), 36), settings);
  CHECK(error.kind == ApiErrorKind::kContextTooLong);
  CHECK(error.message.find("at most 40 tokens") != std::string::npos);
}

TEST_CASE("admission: an empty prompt and ids beyond the vocabulary are refused by field") {
  auto request = letters("", 1);
  CHECK(refusal_of(request).field == "prompt");
  request.prompt = TokenPrompt{{1, 2, 257}};
  CHECK(refusal_of(request).message.find("257 at position 2") != std::string::npos);
  request.prompt = TokenPrompt{{1, -2}};
  CHECK(refusal_of(request).field == "prompt");
  request.prompt = TextPrompt{"fine"};
  request.stop_token_ids = {5000};
  CHECK(refusal_of(request).field == "stop_token_ids");
}

TEST_CASE("admission: min_tokens beyond max_tokens is refused") {
  auto request = letters("hello", 5);
  request.min_tokens = 6;
  CHECK(refusal_of(request).field == "min_tokens");
}

TEST_CASE("admission: overload is refused at once, and who was waiting is served") {
  auto settings = sim::small_settings();
  settings.options.serving.max_waiting = 10;
  settings.options.serving.max_batch_sequences = 2;
  sim::SimWorld world(settings);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 30; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    world.engine().submit(letters("hello", 20, i + 1), sinks.back());
  }
  world.settle();
  int num_refused = 0;
  for (const auto& sink : sinks)
    if (sink->error()) {
      CHECK(sink->error()->kind == ApiErrorKind::kOverloaded);
      num_refused += 1;
    }
  CHECK(num_refused >= 18);
  CHECK(num_refused <= 20);
  REQUIRE(world.run());
  for (const auto& sink : sinks) CHECK(sink->num_terminal() == 1);
  CHECK(leftovers(world) == "");
}

TEST_CASE("admission: who waits too long is told that the server is overloaded") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_queue_time = std::chrono::milliseconds(1000);
  settings.device.batch_time = std::chrono::milliseconds(50);
  sim::SimWorld world(settings);
  const auto first = submit(world, letters("hello", 100));
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(letters("hello", 100), sink);
  world.run_for(std::chrono::milliseconds(1500));
  REQUIRE(sink->error());
  CHECK(sink->error()->kind == ApiErrorKind::kWaitedTooLong);
  CHECK_FALSE(sink->is_accepted());  // so it has a status of its own
  REQUIRE(world.run());
  CHECK(first->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("admission: who has the place of another answer waits for its turn, however long that takes") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_queue_time = std::chrono::milliseconds(1000);
  settings.device.batch_time = std::chrono::milliseconds(50);
  sim::SimWorld world(settings);
  const auto first = submit(world, letters("hello", 100));
  auto next = letters("hello", 5);
  next.form_place = std::make_shared<const int>(1);
  const auto later = std::make_shared<RecordingSink>();
  world.engine().submit(std::move(next), later);
  world.run_for(std::chrono::milliseconds(1500));
  CHECK_FALSE(later->error());
  REQUIRE(world.run());
  CHECK(first->finished());
  CHECK(later->finished());
}

TEST_CASE("admission: a prompt that never had its turn costs its tenant nothing") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_queue_time = std::chrono::milliseconds(1000);
  settings.device.batch_time = std::chrono::milliseconds(50);
  sim::SimWorld world(settings);
  const auto account =
      std::make_shared<TenantAccount>("alice", 1, TenantLimits{.tokens_per_minute = 1, .burst_tokens = 1000},
                                      world.engine().environment().metrics.of_tenant("alice"), world.now());
  const auto submit_counted = [&](std::uint32_t max_tokens) {
    auto sink = std::make_shared<RecordingSink>();
    auto request = letters("hello", max_tokens);
    request.tab = std::get<std::shared_ptr<TenantTab>>(account->open(world.now()));
    world.engine().submit(std::move(request), sink);
    return sink;
  };
  const auto tokens_left = [&] { return account->look(world.now()).reading.tokens_left; };
  const auto first = submit(world, letters("hello", 100));
  const auto late = submit_counted(100);
  world.run_for(std::chrono::milliseconds(500));
  CHECK(tokens_left() == 995);
  world.run_for(std::chrono::milliseconds(1000));
  REQUIRE(late->error());
  CHECK(tokens_left() == 1000);
  REQUIRE(world.run());
  const auto served = submit_counted(3);
  REQUIRE(world.run());
  CHECK(served->finished());
  CHECK(tokens_left() == 992);
}

TEST_CASE("admission: a prompt that is judged holds its tokens, and costs them when it is run") {
  sim::SimWorld world(sim::small_settings());
  world.settle();
  const auto account = std::make_shared<TenantAccount>(
      "alice", 1, TenantLimits{.max_tokens = 20, .tokens_per_minute = 1, .burst_tokens = 1000},
      world.engine().environment().metrics.of_tenant("alice"), world.now());
  const auto tab = std::get<std::shared_ptr<TenantTab>>(account->open(world.now()));
  const auto ask = [&](std::uint32_t max_tokens, PromptUse use) {
    auto sink = std::make_shared<RecordingSink>();
    auto request = letters("hello", max_tokens);
    request.tab = tab;
    request.use = use;
    request.is_judged = use == PromptUse::kRun;
    world.engine().submit(std::move(request), sink);
    REQUIRE(world.run());
    return sink;
  };
  const auto tokens_left = [&] { return account->look(world.now()).reading.tokens_left; };
  const auto judged = ask(10, PromptUse::kJudge);
  REQUIRE(judged->events().size() == 1);
  CHECK(std::holds_alternative<EncodedText>(judged->events().front()));
  CHECK(tokens_left() == 1000);
  CHECK(ask(10, PromptUse::kRun)->finished());
  CHECK(tokens_left() == 985);
  const auto too_much = ask(1, PromptUse::kJudge);
  REQUIRE(too_much->error());
  CHECK(too_much->error()->kind == ApiErrorKind::kInvalidRequest);
  CHECK(world.metric("troupe_generation_tokens_total") == 10);
  const auto too_long = std::make_shared<RecordingSink>();
  auto request = letters(std::string(500, 'x'), 5);
  request.use = PromptUse::kJudge;
  world.engine().submit(std::move(request), too_long);
  REQUIRE(world.run());
  REQUIRE(too_long->error());
  CHECK(too_long->error()->kind == ApiErrorKind::kContextTooLong);
}

TEST_CASE("admission: requests that come before the device is ready wait for it") {
  sim::SimWorld world(sim::small_settings());
  CHECK(world.engine().status().state == EngineState::kStarting);
  const auto client = submit(world, letters("hello", 5));
  const auto refused = submit_refused(world, letters(std::string(500, 'x'), 5));
  REQUIRE(world.run());
  CHECK(world.engine().status().state == EngineState::kReady);
  CHECK(client->finished());
  CHECK(refused->error());
}

TEST_CASE("admission: a draining engine takes nobody and finishes who is there") {
  sim::SimWorld world(sim::small_settings());
  const auto before = submit(world, letters("hello", 50));
  world.run([&] { return before->text().size() > 5; });
  world.engine().environment().board->become_draining();
  const auto after = submit_refused(world, letters("hello", 50));
  REQUIRE(world.run());
  CHECK(before->finished());
  REQUIRE(after->error());
  CHECK(after->error()->kind == ApiErrorKind::kUnavailable);
  CHECK(leftovers(world) == "");
}

}  // namespace
}  // namespace troupe
