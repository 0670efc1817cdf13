// SPDX-License-Identifier: Apache-2.0
// Searches through the real actors and a device whose likely tokens are known: 'a' certain, 'b' less, and so
// on.
#include "actors/beam_request.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

GenerationRequest search_of(std::string prompt, BeamWish wish, std::uint32_t max_tokens = 9) {
  GenerationRequest request = letters(std::move(prompt), max_tokens);
  request.stop_token_ids = {'c'};
  request.beams = wish;
  return request;
}

// What the search finds on a device of that kind.
std::vector<std::string> expected(const BeamWish& wish, std::uint32_t max_tokens) {
  BeamSearch search({.width = wish.width,
                     .max_tokens = max_tokens,
                     .length_penalty = wish.length_penalty,
                     .stop = wish.stop,
                     .end_tokens = {'c'}});
  while (!search.is_over()) {
    std::vector<BeamSearch::Continuation> behind;
    for (std::size_t rank = 0; rank < search.num_continuations(); ++rank)
      behind.push_back(
          {.token = 'a' + static_cast<std::int32_t>(rank), .logprob = -static_cast<double>(rank)});
    search.advance(std::vector(search.open().size(), behind));
  }
  std::vector<std::string> texts;
  for (const auto& answer : search.best(wish.num_answers))
    texts.emplace_back(answer.tokens.begin(), answer.tokens.end());
  return texts;
}

std::vector<std::string> texts_of(const RecordingSink& sink) {
  const auto finished = sink.finished();
  REQUIRE(finished);
  REQUIRE(finished->found);
  std::vector<std::string> texts;
  for (const FoundAnswer& answer : *finished->found) {
    texts.push_back(answer.text);
    const bool is_cut = answer.finished.reason == FinishReason::kLength;
    CHECK(is_cut != answer.finished.stop_token.has_value());
    CHECK(answer.finished.usage.completion_tokens == answer.text.size() + (is_cut ? 0 : 1));
  }
  return texts;
}

std::shared_ptr<RecordingSink> ask(sim::SimWorld& world, GenerationRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(std::move(request), sink);
  return sink;
}

TEST_CASE("beams: the answers are those of the search, whatever runs beside it and however few the pages") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    auto settings = sim::small_settings();
    settings.seed = seed;
    settings.device.description.num_pages = seed % 3 == 0 ? 24 : 64;  // no room for all
    sim::SimWorld world(settings);
    world.run();
    std::vector<std::shared_ptr<sim::SimClient>> others;
    for (std::uint64_t i = 0; i < seed % 5; ++i)
      others.push_back(submit(world, letters(std::string(10 + i, 'x'), 30, i)));
    const std::vector<BeamWish> wishes = {
        {.width = 1},
        {.width = 4, .num_answers = 4},
        {.width = 4, .num_answers = 2, .length_penalty = 0.5, .stop = BeamStop::kFirst},
        {.width = 6, .num_answers = 6, .length_penalty = 2, .stop = BeamStop::kNever}};
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const BeamWish& wish : wishes) sinks.push_back(ask(world, search_of("beginning", wish)));
    REQUIRE(world.run());
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      CAPTURE(i);
      CHECK(sinks[i]->num_terminal() == 1);
      CHECK(texts_of(*sinks[i]) == expected(wishes[i], 9));
    }
    for (const auto& other : others) CHECK(other->finished());
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("beams: a step finds the pages of the beginning that it goes on from") {
  sim::SimWorld world(sim::small_settings());
  world.run();
  std::uint64_t num_computed = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
    num_computed += batch.num_tokens();
    return sim::Fault::kNone;
  };
  const std::string prompt(64, 'x');
  const auto sink = ask(world, search_of(prompt, {.width = 4, .num_answers = 4}, 20));
  REQUIRE(world.run());
  CHECK(sink->finished()->usage.prompt_tokens == 64);
  // The prompt once, then one token a beam and step.
  CHECK(num_computed <= 64 + 19 * 4);
  CHECK(world.devices().num_copies_within > 0);  // of pages that are not full
}

TEST_CASE("beams: a worker that dies in any step changes no answer") {
  const BeamWish wish{.width = 4, .num_answers = 4};
  for (std::uint64_t fatal = 1; fatal < 10; ++fatal) {
    CAPTURE(fatal);
    sim::SimWorld world(sim::small_settings());
    world.run();
    bool has_died = false;
    world.devices().choose_fault = [&](const Batch&, std::uint64_t number) {
      if (number < fatal || std::exchange(has_died, true)) return sim::Fault::kNone;
      return sim::Fault::kBatchError;
    };
    const auto sink = ask(world, search_of("beginning", wish));
    REQUIRE(world.run());
    CHECK(has_died);
    CHECK(texts_of(*sink) == expected(wish, 9));
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("beams: open searches are bounded by flow, and their steps keep no chat out of a full queue") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 2;
  settings.options.serving.max_waiting = 4;  // and 128 beams
  sim::SimWorld world(settings);
  world.run();
  const auto& searches = *world.engine().environment().searches;
  const BeamWish wish{.width = 16, .num_answers = 16};
  const auto search = [&](const char* flow) {
    auto request = search_of("x", wish, 6);
    request.flow = flow;
    const auto sink = ask(world, std::move(request));
    REQUIRE(world.run([&] { return sink->is_accepted() || sink->num_terminal() > 0; }));
    return sink;
  };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 8; ++i) sinks.push_back(search("a"));
  CHECK(searches.num_inside() == 128);
  const auto num_at_door = world.engine().environment().door->num_inside();
  const auto refused = search("a");
  REQUIRE(refused->error());
  CHECK(refused->error()->kind == ApiErrorKind::kOverloaded);
  CHECK(refused->error()->message.find("may have 128 beams") != std::string::npos);
  CHECK(world.engine().environment().door->num_inside() == num_at_door);
  sinks.push_back(search("b"));
  std::vector<std::shared_ptr<RecordingSink>> chats;
  for (int i = 0; i < 4; ++i) {
    auto request = letters("hello", 5);
    request.flow = "a";
    chats.push_back(ask(world, std::move(request)));
  }
  REQUIRE(world.run());
  for (const auto& chat : chats) CHECK(chat->finished());
  for (const auto& sink : sinks) {
    REQUIRE(sink->finished());
    CHECK(texts_of(*sink) == expected(wish, 6));
  }
  CHECK(world.metric("troupe_request_queue_time_seconds_count") == 13);
  CHECK(searches.num_inside() == 0);
  CHECK(leftovers(world) == "");
}

TEST_CASE("beams: an answer ends where the context does") {
  sim::SimWorld world(sim::small_settings());  // of 128 tokens
  world.run();
  auto request =
      search_of(std::string(118, 'x'), {.width = 3, .num_answers = 3, .stop = BeamStop::kNever}, 50);
  request.stop_token_ids = {'z'};
  const auto sink = ask(world, std::move(request));
  REQUIRE(world.run());
  const auto texts = [&] {
    std::vector<std::string> found;
    for (const FoundAnswer& answer : *sink->finished()->found) found.push_back(answer.text);
    return found;
  }();
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == std::string(10, 'a'));
  CHECK(texts[1].size() == 10);
}

TEST_CASE("beams: a request that can't be is refused by name, and one that is given up leaves nothing") {
  sim::SimWorld world(sim::small_settings());
  world.run();
  auto request = search_of("x", {.width = 16, .num_answers = 16});
  request.stop_token_ids = {1, 2, 3, 4, 5};
  const auto refused = ask(world, std::move(request));
  REQUIRE(world.run());
  REQUIRE(refused->error());
  CHECK(refused->error()->message ==
        "Beams and tokens that end an answer are at most 20; these are 16 and 5.");
  CHECK(refused->error()->field == "n");
  const auto too_long = ask(world, search_of(std::string(200, 'x'), {.width = 2}));
  REQUIRE(world.run());
  REQUIRE(too_long->error());
  CHECK(too_long->error()->kind == ApiErrorKind::kContextTooLong);
  for (int num_steps = 1; num_steps < 200; num_steps += 3) {
    CAPTURE(num_steps);
    auto sink = std::make_shared<RecordingSink>();
    const RequestId id =
        world.engine().submit(search_of("give me up", {.width = 4, .num_answers = 4}, 30), sink);
    for (int i = 0; i < num_steps; ++i)
      if (!world.step()) world.advance();
    world.engine().environment().registry->cancel(id);
    REQUIRE(world.run());
    CHECK(sink->num_terminal() == 1);
    CHECK(leftovers(world) == "");
  }
}

}  // namespace
}  // namespace troupe
