// SPDX-License-Identifier: Apache-2.0
// The simulator against what it simulates: the real scheduler, cache tier and
// worker, in virtual time on a device with the same costs, get the same
// requests at the same moments. Each token must come at the very same
// nanosecond.
#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "loadgen/simulator.hpp"
#include "telemetry/log.hpp"
#include "tests/loadgen/simulated_traffic.hpp"
#include "tests/simulation/sim_world.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds kBatchTime = 100us;
constexpr std::chrono::nanoseconds kTokenTime = 2us;

struct Heard {
  std::vector<std::chrono::nanoseconds> tokens;  // when they came
  bool is_overloaded = false;
  std::uint32_t cached_tokens = 0;
};

class ListeningSink final : public ResponseSink {
 public:
  ListeningSink(sim::SimWorld& world, sim::TimePoint begin, Heard& heard)
      : world_(world), begin_(begin), heard_(heard) {}

  void deliver(ResponseEvent event) override {
    if (const auto* text = std::get_if<TextDelta>(&event)) {
      heard_.tokens.push_back(world_.now() - begin_);
      heard_.cached_tokens = text->usage.cached_tokens;
    } else if (const auto* failed = std::get_if<Failed>(&event)) {
      heard_.is_overloaded = failed->error.kind == ApiErrorKind::kOverloaded;
    }
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

 private:
  sim::SimWorld& world_;
  sim::TimePoint begin_;
  Heard& heard_;
};

struct Scenario {
  EngineOptions options;
  std::uint32_t num_pages = 64;
  std::uint32_t num_host_pages = 0;
  std::uint32_t num_slots = 8;
  std::vector<PlannedConversation> requests;  // of one turn, some with a prefix
};

std::int32_t some_token(std::uint64_t name, std::uint32_t position) {
  return static_cast<std::int32_t>(std::mt19937_64(name * 1'000'003 + position)() % 256);
}

// Different tokens for different requests, equal ones for equal prefixes.
TokenPrompt prompt_of(const PlannedConversation& planned) {
  TokenPrompt prompt;
  for (const auto& block : planned.prefix)
    for (std::uint32_t i = 0; i < block.num_tokens; ++i) prompt.tokens.push_back(some_token(block.id, i));
  for (std::uint32_t i = 0; i < planned.turns[0].prompt_tokens; ++i)
    prompt.tokens.push_back(some_token(planned.number + 1000, i));
  return prompt;
}

std::vector<Heard> run_real_actors(const Scenario& scenario) {
  sim::SimSettings settings = sim::small_settings();
  settings.options = scenario.options;
  settings.device.batch_time = kBatchTime;
  settings.device.token_time = kTokenTime;
  settings.device.description.num_pages = scenario.num_pages;
  settings.device.description.num_host_pages = scenario.num_host_pages;
  settings.device.description.num_slots = scenario.num_slots;
  sim::SimWorld world(settings);
  world.settle();  // the device is ready
  std::vector<Heard> heard(scenario.requests.size());
  for (std::size_t i = 0; i < heard.size(); ++i) {
    GenerationRequest request;
    request.id = std::to_string(i);
    request.prompt = prompt_of(scenario.requests[i]);
    request.max_tokens = scenario.requests[i].turns[0].output_tokens;
    request.ignore_eos = true;
    auto sink = std::make_shared<ListeningSink>(world, world.now(), heard[i]);
    world.after(scenario.requests[i].start,
                [&world, request, sink] { world.engine().submit(request, sink); });
  }
  REQUIRE(world.run());
  return heard;
}

CostProfile profile_of(const Scenario& scenario) {
  const auto& device = sim::small_settings().device.description;
  CostProfile profile;
  profile.serving.limits = {.context_length = device.context_length,
                            .page_capacity = scenario.num_pages * device.page_size,
                            .vocabulary_size = device.vocabulary_size};
  profile.serving.batch = {.max_tokens = scenario.options.max_batch_tokens,
                           .max_sequences = scenario.num_slots,
                           .prefill_chunk = scenario.options.prefill_chunk,
                           .separates_prefill = scenario.options.separates_prefill};
  profile.serving.pages = {
      .page_size = device.page_size,
      .look_ahead_pages = scenario.options.look_ahead_pages,
      .kept_free = static_cast<std::uint32_t>(scenario.options.cache.keep_free * scenario.num_pages)};
  profile.serving.num_pages = scenario.num_pages;
  profile.serving.max_in_flight = scenario.options.max_in_flight;
  profile.serving.max_waiting = scenario.options.max_waiting;
  profile.serving.max_queue_time = scenario.options.max_queue_time;
  profile.serving.prefix_cache = scenario.options.cache.keeps_prefixes;
  profile.serving.cache_policy = scenario.options.cache.policy;
  profile.serving.copy_ahead_below = scenario.options.cache.copy_ahead_below;
  profile.serving.num_host_pages = scenario.num_host_pages;
  profile.iteration.fixed = static_cast<double>((kBatchTime + kTokenTime).count());
  profile.iteration.knots = {1};
  profile.iteration.slopes = {static_cast<double>(kTokenTime.count())};
  return profile;
}

// The first request whose tokens do not come as the real scheduler's; empty: none.
std::string difference(const Scenario& scenario) {
  const auto heard = run_real_actors(scenario);
  ListedConversations source(scenario.requests);
  const auto simulation = simulate(profile_of(scenario), source, {RequestClass{}}, {});
  if (simulation.result.records.size() != heard.size()) return "not all requests were simulated";
  for (const auto& record : simulation.result.records) {
    const Heard& real = heard[record.conversation];
    const std::string who = "request " + std::to_string(record.conversation) + ": ";
    if (real.is_overloaded != (record.outcome == Outcome::kRefused)) return who + "refused";
    if (real.is_overloaded) continue;
    if (real.tokens.size() != record.output_tokens) return who + "number of tokens";
    if (real.tokens.front() != record.first_token) return who + "first token";
    if (real.tokens.back() != record.last_token) return who + "last token";
    if (real.cached_tokens != record.cached_tokens) return who + "cached tokens";
    for (std::size_t i = 1; i < real.tokens.size(); ++i) {
      const auto gap =
          std::chrono::duration_cast<std::chrono::microseconds>(real.tokens[i] - real.tokens[i - 1]);
      if (gap.count() != record.gaps_us[i - 1]) return who + "token " + std::to_string(i);
    }
  }
  return {};
}

Scenario random_scenario(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](auto... values) {
    const std::uint32_t all[] = {static_cast<std::uint32_t>(values)...};
    return all[random() % sizeof...(values)];
  };
  Scenario scenario;
  scenario.num_pages = one_of(36, 48, 64);
  scenario.num_slots = one_of(2, 5, 8);
  scenario.options = sim::small_settings().options;
  scenario.options.max_batch_sequences = scenario.num_slots;
  scenario.options.max_batch_tokens = one_of(8, 16, 32);
  scenario.options.prefill_chunk = one_of(4, 8);
  scenario.options.separates_prefill = one_of(0, 0, 1) == 1;
  scenario.options.max_in_flight = one_of(1, 2, 3, 5);
  scenario.options.look_ahead_pages = one_of(0, 1, 2);
  scenario.options.max_waiting = one_of(3, 64);
  scenario.options.cache.keeps_prefixes = random() % 2 == 0;
  scenario.options.cache.policy = random() % 2 == 0 ? EvictionPolicy::kValue : EvictionPolicy::kLru;
  scenario.options.cache.keep_free = one_of(0, 1) * 0.1;
  scenario.num_host_pages = one_of(0, 10, 100);
  scenario.options.max_queue_time = std::chrono::milliseconds(one_of(5, 30000));
  std::chrono::nanoseconds start{0};
  const std::uint32_t longest_gap_us = one_of(100, 600, 2000);
  for (int i = 0; i < 60; ++i) {
    // Never at the very moment at which a batch is done: who comes first then
    // is nobody's decision.
    start += std::chrono::microseconds(1 + random() % longest_gap_us) + 1ns;
    auto request = lone_request(start, 1 + random() % 60, 1 + random() % 40);
    if (random() % 3 == 0) request.prefix.push_back({.id = 1 + random() % 2, .num_tokens = one_of(8, 18)});
    request.number = static_cast<std::uint64_t>(i);
    scenario.requests.push_back(std::move(request));
  }
  return scenario;
}

}  // namespace

TEST_CASE("simulator: every token comes when the real scheduler's does, in random scenarios") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    CHECK(difference(random_scenario(seed)) == "");
  }
  configure_logging(LogLevel::kInfo, LogFormat::kText);
}
