// SPDX-License-Identifier: Apache-2.0
#include "engine/model_cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/engine/core_world.hpp"
#include "tests/engine/models_world.hpp"

using namespace troupe;
using std::chrono::nanoseconds;

TEST_CASE("models: an input is encoded beside a stream, and each gets its own answer") {
  ModelsWorld world;
  world.start_worker(0);
  const auto stream = world.generate(counting(1, 5), 12);
  const auto input = world.encode({7, 8, 9});
  world.finish_all();
  CHECK(world.answer(stream).tokens == counting(100, 12));
  CHECK(world.answer(input).vector == std::vector<float>{24, 3});
  CHECK(world.answer(input).num_ends == 1);
  CHECK(world.cores().num_sequences() == 0);
}

TEST_CASE("models: inputs of several requests share a batch") {
  ModelsWorld world;
  world.start_worker(0);
  const auto first = world.encode(counting(1, 4));
  std::vector<SequenceId> others;
  for (int i = 0; i < 6; ++i) others.push_back(world.encode(counting(10 * i, 4), std::to_string(i)));
  // Two batches in flight: the first alone, then those that came meanwhile, by rows.
  world.finish_batch(0);
  CHECK(world.answer(first).num_ends == 1);
  CHECK(world.in_flight(0).back().batch->slices.size() == 4);
  world.finish_all();
  for (const auto id : others) CHECK(world.answer(id).num_ends == 1);
}

TEST_CASE("models: a worker never has more batches than it may, over all models") {
  ModelsWorld world({.num_encoders = 2});
  world.start_worker(0);
  for (int i = 0; i < 4; ++i) world.generate(counting(1 + 30 * i, 5), 20);
  for (int i = 0; i < 8; ++i) world.encode(counting(i, 20), "a", 1 + static_cast<ModelIndex>(i % 2));
  do {
    CHECK(world.in_flight(0).size() <= 2);
  } while (world.finish_any());
  for (const auto& [id, answer] : world.answers()) CHECK(answer.num_ends == 1);
}

TEST_CASE("models: a flood of inputs and a stream get equal device time") {
  ModelsWorld world;
  world.start_worker(0);
  world.generate(counting(1, 5), 50);
  std::vector<SequenceId> inputs;
  for (int i = 0; i < 8; ++i) inputs.push_back(world.encode(counting(i, 20)));
  while (world.cores().generator(0)->num_sequences() > 0) {
    REQUIRE(world.finish_any());
    if (world.cores().encoder(1)->num_waiting() < 4) world.encode(counting(3, 20));
  }
  const double share = static_cast<double>(world.served(0).count()) /
                       static_cast<double>((world.served(0) + world.served(1)).count());
  CHECK(share > 0.4);
  CHECK(share < 0.6);
}

TEST_CASE("models: beside an encoder's flood a stream keeps its pace, whatever may be in flight") {
  for (const std::uint32_t max_in_flight : {1, 2, 4, 8}) {
    CAPTURE(max_in_flight);
    ModelsWorld world({.decode_time = nanoseconds(1000),
                       .encode_time_a_token = nanoseconds(100),
                       .itl_factor = 2.5,
                       .max_in_flight = max_in_flight});
    world.start_worker(0);
    for (int i = 0; i < 4; ++i) world.encode(counting(i, 8));
    world.finish_all();  // what a token costs is known
    const auto stream = world.generate(counting(1, 5), 50);
    for (int i = 0; i < 8; ++i) world.finish_any();  // and what an iteration does
    auto last = world.now;
    std::size_t num_tokens = world.answer(stream).tokens.size();
    int num_inputs = 0;
    nanoseconds longest{0};
    while (world.answer(stream).num_ends == 0) {
      while (world.cores().encoder(1)->num_waiting() < 6) world.encode(counting(num_inputs++ % 50, 8));
      REQUIRE(world.finish_any());
      if (world.answer(stream).tokens.size() == num_tokens) continue;
      longest = std::max(longest, world.now - last);
      last = world.now;
      num_tokens = world.answer(stream).tokens.size();
    }
    CHECK(longest <= nanoseconds(2500));
    CHECK(num_inputs >= 12);
  }
}

// Between streams batches are full, where a token costs little more than half of what it does in a batch that
// may be beside one.
TEST_CASE("models: a stream keeps its pace from its first tokens on, whatever inputs cost while none ran") {
  constexpr int kStreams = 8, kFirst = 2;  // streams; the first ones, in which costs are learnt
  ModelsWorld world({.decode_time = nanoseconds(1000),
                     .encode_time_a_token = nanoseconds(20),
                     .itl_factor = 1.7,
                     .encode_time = nanoseconds(500)});
  world.start_worker(0);
  int num_inputs = 0;
  const auto flood = [&](int num_tokens) {
    while (world.cores().encoder(1)->num_waiting() < 6) world.encode(counting(num_inputs++ % 50, num_tokens));
    REQUIRE(world.finish_any());
  };
  for (int i = 0; i < kStreams; ++i) {
    CAPTURE(i);
    for (int batch = i % 2 == 0 ? 20 : 400; batch > 0; --batch) flood(8);
    // The first ones have credit, and no input beside them.
    int num_beside = 0;
    for (int tries = 0; num_beside < 50; ++tries) {
      REQUIRE(tries < 6);
      const auto stream = world.generate(counting(1, 5), 40);
      while (world.answer(stream).tokens.empty()) flood(8);
      const int num_before = num_inputs;
      for (auto last = world.now; world.answer(stream).num_ends == 0;) {
        const std::size_t num_tokens = world.answer(stream).tokens.size();
        flood(4);
        if (world.answer(stream).tokens.size() == num_tokens) continue;
        if (i >= kFirst) CHECK(world.now - last <= nanoseconds(1700));
        last = world.now;
      }
      // One of those of 8 tokens beside a token of the stream, then two of those of 4.
      num_beside = num_inputs - num_before;
    }
  }
}

// Encoders earn streams a quarter of the time that they have for themselves.
TEST_CASE("models: short answers among a flood of inputs come as if alone, and inputs keep four fifths") {
  for (const std::uint32_t max_in_flight : {1, 2, 4}) {
    CAPTURE(max_in_flight);
    ModelsWorld world({.decode_time = nanoseconds(1000),
                       .encode_time_a_token = nanoseconds(100),
                       .itl_factor = 2.5,
                       .max_in_flight = max_in_flight});
    world.start_worker(0);
    int num_inputs = 0;
    const auto go_on = [&] {
      while (world.cores().encoder(1)->num_waiting() < 6) world.encode(counting(num_inputs++ % 50, 8));
      REQUIRE(world.finish_any());
    };
    for (int round = 0; round < 10; ++round) {
      CAPTURE(round);
      for (int i = 0; i < 40; ++i) go_on();
      const auto stream = world.generate(counting(1, 5), 8);
      while (world.answer(stream).tokens.empty()) go_on();
      for (auto last = world.now; world.answer(stream).num_ends == 0; last = world.now) {
        const std::size_t num_tokens = world.answer(stream).tokens.size();
        while (world.answer(stream).tokens.size() == num_tokens && world.answer(stream).num_ends == 0)
          go_on();
        CHECK(world.now - last <= nanoseconds(1000));
      }
    }
    const auto both = world.served(0) + world.served(1);
    CHECK(static_cast<double>(world.served(1).count()) > 0.8 * static_cast<double>(both.count()));
  }
}

TEST_CASE("models: a prompt waits for one batch of inputs that takes long, not for the one behind it too") {
  constexpr std::chrono::milliseconds kPass{6};
  ModelsWorld world({.itl_factor = 2.5, .encode_time = kPass});
  world.start_worker(0);
  for (int i = 0; i < 8; ++i) world.encode(counting(i, 8));
  world.finish_batch(0);  // what they take is known
  world.finish_batch(0);
  CHECK(world.in_flight(0).size() == 1);
  CHECK(world.cores().encoder(1)->num_waiting() > 0);
  const auto begun = world.now;
  const auto stream = world.generate(counting(1, 5), 8);
  while (world.answer(stream).tokens.empty()) REQUIRE(world.finish_any());
  CHECK(world.now - begun < 2 * kPass);
  world.finish_all();
  CHECK(world.cores().num_sequences() == 0);
}

// Prompts alone, each of which takes as long as many passes.
TEST_CASE("models: beside prompts that take long encoders have their turns, though prompts have credit") {
  ModelsWorld world({.encode_time_a_token = nanoseconds(100),
                     .prompt_time_a_token = nanoseconds(10'000),
                     .itl_factor = 2.5});
  world.start_worker(0);
  int num_inputs = 0;
  for (int i = 0; i < 4000; ++i) {
    while (world.cores().encoder(1)->num_waiting() < 6) world.encode(counting(num_inputs++ % 50, 8));
    if (i > 100 && world.cores().generator(0)->num_waiting() < 2) world.generate(counting(i % 50, 20), 1);
    REQUIRE(world.finish_any());
  }
  CHECK(4 * world.served(1) > world.served(0));
}

TEST_CASE("models: beside a flood of cells encoders have their turns, though streams have credit") {
  ModelsWorld world({.encode_time_a_token = nanoseconds(100),
                     .itl_factor = 2.5,
                     .num_chains = 1,
                     .cell_time = nanoseconds(5'000)});
  world.start_worker(0);
  constexpr ModelIndex kEncoder = 1, kChain = 2;
  int num_inputs = 0;
  std::vector<SequenceId> chains;
  for (int i = 0; i < 4000; ++i) {
    while (world.cores().encoder(kEncoder)->num_waiting() < 6) world.encode(counting(num_inputs++ % 50, 8));
    std::erase_if(chains, [&](SequenceId id) { return world.answer(id).num_ends > 0; });
    while (i > 100 && chains.size() < 12)
      chains.push_back(world.generate(counting(num_inputs++ % 50, 4), 4, "b", kChain));
    REQUIRE(world.finish_any());
  }
  CHECK(3 * world.served(kChain) > world.served(kEncoder));
  CHECK(3 * world.served(kEncoder) > world.served(kChain));
}

TEST_CASE("models: an encoder whose batches take long has its turns beside one whose batches do not") {
  ModelsWorld world(
      {.num_encoders = 2, .encode_time_a_token = std::chrono::microseconds(300), .itl_factor = 2.5});
  world.start_worker(0);
  constexpr ModelIndex kQuick = 1, kSlow = 2;
  int num_inputs = 0;
  for (int i = 0; i < 400; ++i) {
    while (world.cores().encoder(kQuick)->num_waiting() < 2) world.encode({num_inputs++ % 50}, "a", kQuick);
    while (world.cores().encoder(kSlow)->num_waiting() < 6)
      world.encode(counting(num_inputs++ % 50, 20), "a", kSlow);
    REQUIRE(world.finish_any());
  }
  CHECK(world.served(kSlow) > world.served(kQuick) / 2);
  CHECK(world.served(kQuick) > world.served(kSlow) / 2);
}

TEST_CASE("models: beside another model's long prompts a stream keeps its pace, whatever may be in flight") {
  for (const std::uint32_t max_in_flight : {1, 2, 4}) {
    CAPTURE(max_in_flight);
    ModelsWorld world({.num_generators = 2,
                       .num_encoders = 0,
                       .decode_time = nanoseconds(1000),
                       .prompt_time_a_token = nanoseconds(20),
                       .num_pages = 1000,
                       .max_batch_tokens = 512,
                       .context_length = 1000,
                       .itl_factor = 2.5,
                       .max_in_flight = max_in_flight});
    world.start_worker(0);
    world.generate(counting(1, 300), 1, "b", 1);
    world.generate(counting(1, 5), 20, "a", 0);
    world.finish_all();  // what prompts cost here, and what an iteration there
    const auto stream = world.generate(counting(1, 5), 200);
    for (int i = 0; i < 8; ++i) world.finish_any();
    auto last = world.now;
    std::size_t num_tokens = world.answer(stream).tokens.size();
    std::vector<SequenceId> prompts;
    nanoseconds longest{0};
    while (world.answer(stream).num_ends == 0) {
      if (prompts.empty() || world.answer(prompts.back()).num_ends > 0)
        prompts.push_back(world.generate(counting(static_cast<int>(prompts.size()) % 3, 400), 1, "b", 1));
      REQUIRE(world.finish_any());
      if (world.answer(stream).tokens.size() == num_tokens) continue;
      longest = std::max(longest, world.now - last);
      last = world.now;
      num_tokens = world.answer(stream).tokens.size();
    }
    // An iteration of its own, and one of the other model within 1.5 of it; whole prompts take 9,000.
    CHECK(longest <= nanoseconds(3600));
    CHECK(prompts.size() >= 6);
    world.finish_all();
    for (const auto id : prompts) CHECK(world.answer(id).tokens == std::vector<std::int32_t>{100});
  }
}

TEST_CASE("models: an input is encoded soon though prompts of one model never end") {
  for (const std::uint32_t max_in_flight : {1, 2, 4}) {
    CAPTURE(max_in_flight);
    ModelsWorld world({.decode_time = nanoseconds(1000),
                       .prompt_time_a_token = nanoseconds(20),
                       .num_pages = 1000,
                       .max_batch_tokens = 512,
                       .context_length = 1000,
                       .itl_factor = 2.5,
                       .max_in_flight = max_in_flight});
    world.start_worker(0);
    world.encode(counting(1, 8));
    world.generate(counting(1, 300), 5);
    world.finish_all();  // costs are known
    world.generate(counting(1, 5), 200);
    auto prompt = world.generate(counting(2, 400), 1);
    for (int i = 0; i < 6; ++i) world.finish_any();
    const auto input = world.encode(counting(3, 8));
    int num_batches = 0;
    while (world.answer(input).num_ends == 0 && num_batches < 100) {
      if (world.answer(prompt).num_ends > 0) prompt = world.generate(counting(num_batches % 50, 400), 1);
      REQUIRE(world.finish_any());
      ++num_batches;
    }
    CHECK(num_batches <= 8);
  }
}

TEST_CASE("models: neither starves the other after it was alone for long") {
  ModelsWorld world;
  world.start_worker(0);
  world.generate(counting(1, 5), 50);
  world.finish_all();
  for (int i = 0; i < 6; ++i) world.encode(counting(i, 20), std::to_string(i));
  const auto stream = world.generate(counting(1, 5), 20);
  int num_batches = 0;
  while (world.answer(stream).tokens.empty()) {
    world.encode(counting(3, 20));
    REQUIRE(world.finish_any());
    num_batches += 1;
  }
  CHECK(num_batches < 8);
}

TEST_CASE("models: a device that hangs is found though another model's batches are done") {
  ModelsWorld world;
  world.start_worker(0);
  world.generate(counting(1, 5), 3);
  world.encode({1, 2});
  world.finish_all();
  world.encode({1, 2, 3});
  world.generate(counting(1, 5), 50);
  REQUIRE(world.in_flight(0).front().model == 1);
  for (int i = 0; i < 4 * 20; ++i) {
    world.now += std::chrono::milliseconds(250);
    world.hand(SchedulerTick{});
    if (i % 2 == 0) world.finish_batch_of(0, 0);  // the stream goes on, on a device of its own
  }
  CHECK(world.cores().trouble() == Trouble::kDeviceHangs);
}

TEST_CASE("models: what a lost worker was encoding is encoded by another one at once") {
  ModelsWorld world;
  world.start_worker(0);
  const auto input = world.encode({1, 2, 3});
  const auto stream = world.generate(counting(1, 5), 6);
  world.start_worker(1);
  world.lose_worker(0);
  CHECK(world.answer(input).stopped == std::vector{StopReason::kWorkerLost});
  CHECK_FALSE(world.in_flight(1).empty());
  world.finish_all();
  CHECK(world.answer(input).vector == std::vector<float>{6, 3});
  CHECK(world.answer(stream).tokens == counting(100, 6));
}

TEST_CASE("models: an input that kills workers is given up, and no stream is blamed for it") {
  for (const auto loss : {ModelsWorld::Loss::kOfBatch, ModelsWorld::Loss::kOfDevice}) {
    ModelsWorld world;
    world.start_worker(0);
    const auto stream = world.generate(counting(1, 5), 30);
    world.finish_any();
    const auto poison = world.encode({1, 2, 3});
    for (int deaths = 0; deaths < 2; ++deaths) {
      while (world.in_flight(0).front().model != 1) world.finish_any();
      world.lose_worker(0, loss);
      world.start_worker(0);
    }
    REQUIRE(world.answer(poison).failed.has_value());
    CHECK(world.answer(poison).failed->failure == SequenceFailure::kKillsWorkers);
    world.finish_all();
    CHECK(world.answer(stream).tokens == counting(100, 30));
  }
}

TEST_CASE(
    "models: a worker that ends without a word, and the request that does it is found among all models") {
  for (const bool is_input : {false, true}) {
    CAPTURE(is_input);
    ModelsWorld world;
    world.start_worker(0);
    const auto stream = world.generate(counting(1, 5), 8);
    const auto input = world.encode({1, 2, 3});
    const auto poison = is_input ? input : stream, other = is_input ? stream : input;
    int num_deaths = 0;
    while (world.answer(poison).num_ends == 0 || world.answer(other).num_ends == 0) {
      REQUIRE(num_deaths < 4);
      REQUIRE_FALSE(world.in_flight(0).empty());
      if (world.in_flight(0).front().batch->slices.front().sequence != poison) {
        world.finish_batch(0);
        continue;
      }
      world.lose_worker(0);
      world.start_worker(0);
      num_deaths += 1;
    }
    REQUIRE(world.answer(poison).failed.has_value());
    CHECK(world.answer(poison).failed->failure == SequenceFailure::kKillsWorkers);
    CHECK_FALSE(world.answer(other).failed.has_value());
    CHECK(num_deaths == 2);
  }
}

TEST_CASE("models: a request that is tried alone is alone over all models, and they take turns") {
  ModelsWorld world;
  world.start_worker(0);
  const auto stream = world.generate(counting(1, 5), 8);
  world.lose_worker(0, ModelsWorld::Loss::kOfDevice);
  const auto input = world.encode({1, 2, 3});
  world.start_worker(0);
  CHECK(world.in_flight(0).size() == 1);
  world.finish_all();
  CHECK(world.answer(stream).tokens == counting(100, 8));
  CHECK(world.answer(input).num_ends == 1);
}

TEST_CASE("models: a suspect whose client does not read costs the others nothing") {
  ModelsWorld world;
  world.start_worker(0);
  const auto suspect = world.generate(counting(1, 5), 20);
  REQUIRE(world.finish_any());
  world.hand(PauseSequence{.sequence = suspect});
  REQUIRE_FALSE(world.in_flight(0).empty());
  world.lose_worker(0);
  world.start_worker(0);
  world.generate(counting(20, 5), 20, "b");
  for (int i = 0; i < 3; ++i) REQUIRE(world.finish_any());
  CHECK(world.in_flight(0).size() == 2);
  world.hand(ResumeSequence{.sequence = suspect});
  world.finish_all();
  CHECK(world.answer(suspect).num_ends == 1);
  CHECK(world.answer(suspect).tokens.size() == 20);
}

TEST_CASE("models: an input is refused for what is wrong with it") {
  ModelsWorld world;
  const auto early = world.encode(counting(1, 25));  // before there is a device
  world.start_worker(0);
  for (const auto& [input, part] : std::vector<std::pair<std::vector<std::int32_t>, std::string>>{
           {{}, "empty"},
           {counting(1, 25), "at most 24 tokens; this one has 25"},
           {{5, 1000}, "[0, 1000)"}}) {
    const auto id = world.encode(input);
    REQUIRE(world.answer(id).failed.has_value());
    CHECK(world.answer(id).failed->message.find(part) != std::string::npos);
  }
  CHECK(world.answer(early).failed->failure == SequenceFailure::kContextTooLong);
  CHECK(world.cores().num_sequences() == 0);
}

TEST_CASE("models: of inputs that wait too long or too many, each is told") {
  ModelsWorld world;  // max_waiting 8, and no device
  std::vector<SequenceId> inputs;
  for (int i = 0; i < 9; ++i) inputs.push_back(world.encode({1}));
  CHECK(world.answer(inputs.back()).failed->failure == SequenceFailure::kQueueFull);
  world.now += std::chrono::seconds(31);
  world.hand(SchedulerTick{});
  for (int i = 0; i < 8; ++i)
    CHECK(world.answer(inputs[static_cast<std::size_t>(i)]).failed->failure ==
          SequenceFailure::kQueueTimeout);
  CHECK(world.cores().num_sequences() == 0);
}

TEST_CASE("models: a batch that waits for another model's long one is no hanging device") {
  ModelsWorld world({.encode_time_a_token = std::chrono::seconds(1)});
  world.start_worker(0);
  world.generate(counting(1, 5), 3);
  world.encode({1});
  world.finish_all();  // both know what a batch takes
  world.encode(counting(1, 24));
  world.generate(counting(1, 5), 20);
  REQUIRE(world.in_flight(0).size() == 2);
  REQUIRE(world.in_flight(0).front().model == 1);
  const auto wait = [&](int seconds) {
    for (int i = 0; i < 4 * seconds; ++i) {
      world.now += std::chrono::milliseconds(250);
      world.hand(SchedulerTick{});
    }
  };
  wait(20);
  CHECK(world.cores().trouble() == Trouble::kNone);
  wait(130);  // far longer than any batch was
  CHECK(world.cores().trouble() == Trouble::kDeviceHangs);
  CHECK(world.stalled.empty());
}

TEST_CASE("models: pages are flushed once, when every model is done") {
  ModelsWorld world;
  world.start_worker(0);
  world.encode({1, 2});
  world.hand(FlushPages{.number = 7});
  CHECK(world.flushed.empty());
  world.finish_all();
  world.hand(SchedulerTick{});
  CHECK(world.flushed == std::vector<std::uint64_t>{7});
}

TEST_CASE("models: whatever happens, every request ends once and with its own answer") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::uint64_t n) { return random() % n; };
    ModelsWorld world({.num_encoders = 1 + static_cast<std::uint32_t>(draw(2)),
                       .decode_time = nanoseconds(1 + draw(1000)),
                       .encode_time_a_token = nanoseconds(1 + draw(100)),
                       .itl_factor = draw(2) == 0 ? 0.0 : 2.5});
    world.start_worker(0);
    if (draw(2) == 0) world.start_worker(1);
    std::map<SequenceId, std::uint32_t> asked;
    std::set<SequenceId> stopped;
    for (int step = 0; step < 120; ++step) {
      const std::string flow(1, static_cast<char>('a' + draw(3)));
      switch (draw(10)) {
        case 0:
        case 1: {
          const auto num_tokens = static_cast<std::uint32_t>(1 + draw(10));
          asked[world.generate(counting(static_cast<std::int32_t>(draw(400)), 1 + draw(20)), num_tokens,
                               flow)] = num_tokens;
          break;
        }
        case 2:
        case 3:
          world.encode(counting(static_cast<std::int32_t>(draw(400)), 1 + draw(24)), flow,
                       1 + static_cast<ModelIndex>(draw(world.cores().num_models() - 1)));
          break;
        case 4:
          if (!world.answers().empty()) {
            const SequenceId id = 1 + draw(world.answers().size());
            if (world.answer(id).num_ends == 0) stopped.insert(id);
            world.hand(StopSequence{.sequence = id});
          }
          break;
        case 5:
          if (draw(6) == 0) {  // seldom enough that nobody is blamed for two
            const auto worker = static_cast<WorkerId>(draw(2));
            if (!world.in_flight(worker).empty()) {
              world.lose_worker(worker);
              world.start_worker(worker);
            }
          }
          break;
        case 6: world.hand(SchedulerTick{}); break;
        default: world.finish_any();
      }
      for (WorkerId worker = 0; worker < 2; ++worker) REQUIRE(world.in_flight(worker).size() <= 2);
    }
    world.finish_all();
    for (const auto& [id, answer] : world.answers()) {
      CAPTURE(id);
      if (stopped.contains(id)) continue;
      REQUIRE(answer.num_ends == 1);
      if (answer.failed) {
        const auto failure = answer.failed->failure;
        CHECK((failure == SequenceFailure::kQueueFull || failure == SequenceFailure::kDisplaced ||
               failure == SequenceFailure::kKillsWorkers));
      } else if (answer.model == 0) {
        CHECK(answer.tokens == counting(100, asked.at(id)));
      } else {
        CHECK(answer.vector.front() == static_cast<float>(answer.input_sum));
      }
    }
    CHECK(world.cores().num_sequences() == 0);
    CHECK(world.cores().num_in_flight() == 0);
  }
}
