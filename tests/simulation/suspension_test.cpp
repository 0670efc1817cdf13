// SPDX-License-Identifier: Apache-2.0
// Who has to make room, who comes back first, and that nobody's kept pages make
// anybody wait: looked at after every single message, in worlds that a seed fills
// with more requests than there are pages for.
#include "actors/scheduler.hpp"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/actors/world.hpp"
#include "tests/support/sanitizers.hpp"

namespace troupe {
namespace {

using Arrival = std::uint64_t;

// Of all sequences that run: had it got a token since it was last suspended?
struct Runner {
  bool has_progressed = false;
  std::size_t num_tokens = 0;
};
using Running = std::map<Arrival, Runner>;

Running running_now(sim::SimWorld& world) {
  Running running;
  for (const Sequence* sequence : world.scheduler().core().running())
    running.emplace(sequence->arrival, Runner{sequence->has_progressed, sequence->tokens.size()});
  return running;
}

// Follows one world through its messages. Without faults and pauses, who ran and
// waits now was suspended.
class SuspensionRules {
 public:
  explicit SuspensionRules(sim::SimWorld& world) : world_(world) {}

  void look() {
    Running now = running_now(world_);
    const EngineCore& core = world_.scheduler().core();
    for (const auto& [arrival, runner] : before_) {
      const auto found = core.waiting().find(arrival);
      if (found == core.waiting().end()) continue;
      // It may have got its token in the very step in which it had to go.
      const std::size_t num_tokens = core.sequence(found->second).tokens.size();
      check_suspended(arrival, runner.has_progressed || num_tokens > runner.num_tokens, now);
    }
    check_joining(now);
    before_ = std::move(now);
  }

  int num_suspended() const { return num_suspended_; }

 private:
  void check_suspended(Arrival arrival, bool had_progressed, const Running& now) {
    num_suspended_ += 1;
    INFO("sequence ", arrival, " was suspended");
    CHECK_MESSAGE(had_progressed, "twice in a row, without a token in between");
    CHECK_MESSAGE(arrival != before_.begin()->first, "although it was the first of those who ran");
    for (const auto& [later, runner] : now)
      if (later > arrival) CHECK_MESSAGE(!runner.has_progressed, "before ", later, ", which came later");
  }

  // Sequences join in order of arrival; others pass while the disk reads for one.
  void check_joining(const Running& now) const {
    const EngineCore& core = world_.scheduler().core();
    for (const auto& [arrival, runner] : now) {
      if (before_.contains(arrival)) continue;
      for (const auto& [earlier, index] : core.waiting()) {
        if (earlier > arrival) break;
        CHECK_MESSAGE(core.sequence(index).phase == Sequence::Phase::kFetching, "sequence ", arrival,
                      " joined before ", earlier, ", which came first");
      }
    }
  }

  sim::SimWorld& world_;
  Running before_;
  int num_suspended_ = 0;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_() % (high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

sim::SimSettings crowded(std::uint64_t seed, Draw& draw) {
  auto settings = sim::small_settings();
  settings.seed = seed;
  settings.device.description.num_pages = draw.between(32, 60);
  settings.device.description.num_host_pages = draw.between(0, 60);
  settings.options.serving.look_ahead_pages = draw.between(0, 2);
  settings.options.serving.keep_free = draw.between(0, 20) / 100.0;
  settings.options.serving.cache_policy =
      draw.between(0, 1) == 0 ? EvictionPolicy::kValue : EvictionPolicy::kLru;
  settings.options.serving.max_in_flight = draw.between(1, 5);
  if (draw.between(0, 1) == 0) return settings;
  settings.disk.file = std::make_shared<sim::SimFile>();
  settings.disk.file->pages.resize(draw.between(1, 100));
  settings.disk.seed = seed;
  return settings;
}

sim::ClientPlan crowded_plan(Draw& draw) {
  sim::ClientPlan plan;
  plan.request = letters(std::string(draw.between(1, 60), draw.between(0, 1) == 0 ? 'x' : 'y'),
                         draw.between(1, 60), draw.between(0, 1000));
  if (draw.between(0, 9) == 0) plan.cancel_after_steps = draw.between(0, 300);
  return plan;
}

TEST_CASE("suspension: the latest gives way, never twice for nothing, and comes back in its order") {
  constexpr std::uint64_t kSeeds = test::fewer_if_sanitized(200);
  std::uint64_t num_suspended = 0;
  double num_read = 0;  // pages, from the disk
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    sim::SimWorld world(crowded(seed, draw));
    SuspensionRules rules(world);
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (std::uint32_t i = draw.between(6, 20); i > 0; --i) {
      clients.push_back(std::make_shared<sim::SimClient>(world, crowded_plan(draw)));
      world.after(std::chrono::microseconds(draw.between(0, 5000)),
                  [client = clients.back()] { client->start(); });
    }
    do {
      while (world.step()) rules.look();
    } while (world.advance() && world.num_steps() < 200'000);
    for (const auto& client : clients) CHECK(client->has_ended());
    CHECK(leftovers(world) == "");
    num_suspended += rules.num_suspended();
    num_read += world.metric("troupe_kv_pages_read_total");
  }
  MESSAGE(num_suspended, " suspensions, ", num_read, " pages read from disk");
  CHECK(num_suspended > kSeeds);
  CHECK(num_read > 0);
}

TEST_CASE("suspension: pages kept of conversations make nobody wait") {
  for (const bool has_host : {false, true}) {
    auto settings = sim::small_settings();
    settings.device.description.num_pages = 40;
    settings.device.description.num_host_pages = has_host ? 200 : 0;
    sim::SimWorld world(settings);
    for (std::uint64_t i = 0; i < 6; ++i) {  // each leaves some 15 pages behind
      submit(world, letters(std::string(30, static_cast<char>('a' + i)), 30, i));
      REQUIRE(world.run());
    }
    REQUIRE(world.pages().counts().cached > 30);
    const auto large = submit(world, letters(std::string(60, 'z'), 60));
    world.settle();  // no time passes
    CHECK(world.scheduler().core().num_running() == 1);
    REQUIRE(world.run());
    CHECK(large->finished()->usage.completion_tokens == 60);
    CHECK(world.metric("troupe_num_preemptions_total") == 0);
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("suspension: one that needs nearly all pages gets them behind a stream of small ones") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 32;
  settings.device.description.num_host_pages = 20;
  sim::SimWorld world(settings);
  std::vector<std::shared_ptr<sim::SimClient>> small;
  const auto come = [&](std::uint64_t number) {
    small.push_back(submit(world, letters(std::string(20, 'x'), 20, number)));
  };
  for (std::uint64_t i = 0; i < 4; ++i) come(i);
  world.run([&] { return world.scheduler().core().num_running() == 4; });
  const auto large = submit(world, letters(std::string(100, 'z'), 20));
  std::uint64_t number = 4;
  // For as long as the large one waits, a small one comes for each that ends.
  world.run([&] {
    std::size_t num_open = 0;
    for (const auto& client : small) num_open += client->has_ended() ? 0 : 1;
    if (num_open < 4) come(number++);
    return large->has_ended() || number > 200;
  });
  CHECK(large->finished()->usage.completion_tokens == 20);
  CHECK(number < 50);
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

}  // namespace
}  // namespace troupe
