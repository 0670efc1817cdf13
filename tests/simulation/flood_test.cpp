// SPDX-License-Identifier: Apache-2.0
// Two flows, one of which floods: a seed decides upon a server and what both ask
// for. Whatever it is, every request of the other one is let in, and its first token
// comes within a number of batches that does not depend on the flood.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "policy/admitting/fair_queue.hpp"
#include "policy/admitting/yielding.hpp"
#include "telemetry/log.hpp"
#include "tests/simulation/sim_world.hpp"
#include "tests/support/sanitizers.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;

struct Heard {
  std::uint64_t submitted_at = 0;  // batches submitted to the device by then
  std::optional<std::uint64_t> first_token_at;
  std::optional<ApiError> error;
  bool is_over = false;
  bool had_token_before_error = false;
};

class FloodSink final : public ResponseSink {
 public:
  FloodSink(SimWorld& world, Heard& heard, std::function<void()> on_end)
      : world_(world), heard_(heard), on_end_(std::move(on_end)) {}

  void deliver(ResponseEvent event) override {
    if (std::holds_alternative<TextDelta>(event) && !heard_.first_token_at)
      heard_.first_token_at = world_.devices().num_batches;
    if (const auto* failed = std::get_if<Failed>(&event)) {
      heard_.error = failed->error;
      heard_.had_token_before_error = heard_.first_token_at.has_value();
    }
    if (!is_terminal(event)) return;
    heard_.is_over = true;
    if (on_end_) on_end_();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

 private:
  SimWorld& world_;
  Heard& heard_;
  std::function<void()> on_end_;
};

struct Ask {
  std::uint32_t longest_prompt = 1, longest_answer = 1;
};

class Flood {
 public:
  explicit Flood(std::uint64_t seed) : random_(seed) {
    SimSettings settings = small_settings();
    settings.seed = seed;
    EngineOptions& options = settings.options;
    DeviceDescription& device = settings.device.description;
    device.num_slots = options.serving.max_batch_sequences = one_of({1, 2, 3, 4, 8});
    device.max_batch_tokens = options.serving.max_batch_tokens = 2 * device.num_slots + one_of({2, 8, 30});
    options.serving.prefill_chunk = one_of({4, 8, 32});
    options.serving.max_in_flight = one_of({1, 2, 4});
    options.serving.max_waiting = one_of({2, 5, 12});
    options.serving.max_queue_time = std::chrono::hours(1);
    if (random_() % 4 == 0) options.serving.cache_policy = EvictionPolicy::kNone;
    device.page_size = one_of({1, 4, 8});
    has_all_pages_ = random_() % 2 == 0;
    device.num_pages = 128 * (has_all_pages_ ? device.num_slots + 1 : 2) / device.page_size;
    greedy_ = {.longest_prompt = one_of({4, 20, 60}), .longest_answer = one_of({4, 30, 60})};
    modest_ = {.longest_prompt = one_of({4, 20, 60}), .longest_answer = one_of({4, 20})};
    settings_ = settings;
    world_ = std::make_unique<SimWorld>(settings);
    world_->settle();
  }

  void run() {
    const std::uint32_t num_clients =
        settings_.options.serving.max_waiting + 2 * settings_.device.description.num_slots + 4;
    for (std::uint32_t i = 0; i < num_clients; ++i) ask_greedily();
    world_->run_for(microseconds(20'000));
    // One after the other: a flow that is within its share however small that is.
    for (int i = 0; i < 8; ++i) {
      heard_.push_back(std::make_unique<Heard>());
      Heard& heard = *heard_.back();
      modest_heard_.push_back(&heard);
      submit("modest", modest_, heard, {});
      REQUIRE(world_->run([&] { return heard.is_over; }));
      world_->run_for(microseconds(random_() % 3000));
    }
    is_flooding_ = false;
    REQUIRE(world_->run());
    check();
  }

  std::uint64_t longest_wait() const { return longest_wait_; }
  std::uint64_t num_displaced() const { return num_displaced_; }
  std::uint64_t num_preemptions() const { return num_preemptions_; }
  std::uint64_t trace_hash() const { return world_->trace_hash(); }

 private:
  std::uint32_t one_of(std::initializer_list<std::uint32_t> values) {
    return *(values.begin() + random_() % values.size());
  }

  void submit(const std::string& flow, const Ask& most, Heard& heard, std::function<void()> on_end) {
    GenerationRequest request;
    request.id = flow;
    request.flow = flow;
    std::string prompt(1 + random_() % most.longest_prompt, 'a');
    for (char& letter : prompt) letter = static_cast<char>('a' + random_() % 26);
    request.prompt = TextPrompt{prompt};
    request.max_tokens = 1 + random_() % most.longest_answer;
    request.ignore_eos = true;
    heard.submitted_at = world_->devices().num_batches;
    world_->engine().submit(std::move(request),
                            std::make_shared<FloodSink>(*world_, heard, std::move(on_end)));
  }

  // A client that asks again at once, whatever it was told.
  void ask_greedily() {
    heard_.push_back(std::make_unique<Heard>());
    Heard& heard = *heard_.back();
    submit("greedy", greedy_, heard, [this, &heard] {
      const auto pause = microseconds(heard.error ? 200 + random_() % 500 : 0);
      world_->after(pause, [this] {
        if (is_flooding_) ask_greedily();
      });
    });
  }

  // Batches after which a request that is next in turn has its first token, if
  // there are pages: those in flight; a sequence to have got on, for which all that
  // run may first have to be prefilled; the prompt itself, with half of what decoding
  // leaves.
  std::uint64_t bound() const {
    const auto& device = settings_.device.description;
    const std::uint64_t left =
        std::min(settings_.options.serving.prefill_chunk, (device.max_batch_tokens - device.num_slots) / 2);
    const std::uint64_t prefill =
        device.num_slots * (greedy_.longest_prompt / left + 1) + modest_.longest_prompt / left + 1;
    // With one slot: what runs ends, after as many tokens as the request before had.
    const std::uint64_t had = modest_.longest_prompt + modest_.longest_answer * FairQueue::kDrawnTokenCost;
    const std::uint64_t turn =
        device.num_slots >= 2 ? kLeastProgress : had / FairQueue::kDrawnTokenCost + greedy_.longest_answer;
    return 2 * settings_.options.serving.max_in_flight + turn + prefill + device.num_slots;
  }

  std::string description() const {
    const auto& device = settings_.device.description;
    const auto& options = settings_.options;
    std::string text;
    const auto add = [&](const char* name, std::uint64_t value) {
      text += std::string(name) + " " + std::to_string(value) + ", ";
    };
    add("slots", device.num_slots);
    add("batch tokens", device.max_batch_tokens);
    add("chunk", options.serving.prefill_chunk);
    add("in flight", options.serving.max_in_flight);
    add("waiting", options.serving.max_waiting);
    add("page size", device.page_size);
    add("keeps prefixes", options.serving.keeps_prefixes() ? 1 : 0);
    add("greedy prompt", greedy_.longest_prompt);
    add("greedy answer", greedy_.longest_answer);
    add("modest prompt", modest_.longest_prompt);
    return text;
  }

  void check() {
    for (const Heard* heard : modest_heard_) {
      REQUIRE_FALSE(heard->error.has_value());
      REQUIRE(heard->first_token_at.has_value());
      const std::uint64_t wait = *heard->first_token_at - heard->submitted_at;
      longest_wait_ = std::max(longest_wait_, wait);
      if (has_all_pages_)
        CHECK_MESSAGE(wait <= bound(), "it waited for ", wait, " batches, not ", bound(), ": ",
                      description());
    }
    for (const auto& heard : heard_) {
      CHECK(heard->is_over);
      if (!heard->error) continue;
      CHECK(http_status(heard->error->kind) == 429);
      CHECK_FALSE(heard->had_token_before_error);
      num_displaced_ += heard->error->kind == ApiErrorKind::kDisplaced ? 1 : 0;
    }
    for (const auto& violation : world_->devices().violations) FAIL_CHECK(violation);
    CHECK(world_->scheduler().num_sequences() == 0);
    CHECK(world_->pages().counts().running == 0);
    num_preemptions_ = static_cast<std::uint64_t>(world_->metric("troupe_num_preemptions_total"));
  }

  std::mt19937_64 random_;
  SimSettings settings_;
  Ask greedy_, modest_;
  bool has_all_pages_ = true;  // enough for all that may run
  bool is_flooding_ = true;
  std::vector<std::unique_ptr<Heard>> heard_;
  std::vector<const Heard*> modest_heard_;
  std::uint64_t longest_wait_ = 0, num_displaced_ = 0, num_preemptions_ = 0;
  std::unique_ptr<SimWorld> world_;  // last: its actors speak to the sinks until it is gone
};

TEST_CASE("flood: every request of the other flow is let in, and its first token comes in bounded time") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::uint64_t longest_wait = 0, num_displaced = 0, num_preemptions = 0;
  for (std::uint64_t seed = 1; seed <= test::fewer_if_sanitized(120); ++seed) {
    CAPTURE(seed);
    Flood flood(seed);
    flood.run();
    longest_wait = std::max(longest_wait, flood.longest_wait());
    num_displaced += flood.num_displaced();
    num_preemptions += flood.num_preemptions();
  }
  configure_logging(LogLevel::kInfo, LogFormat::kText);
  MESSAGE("longest wait ", longest_wait, " batches, ", num_displaced, " displaced, ", num_preemptions,
          " preemptions");
  CHECK(num_displaced > 0);
  CHECK(num_preemptions > 0);
}

TEST_CASE("flood: the same seed gives the same run") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Flood first(seed), second(seed);
    first.run();
    second.run();
    CHECK(first.trace_hash() == second.trace_hash());
  }
  configure_logging(LogLevel::kInfo, LogFormat::kText);
}

}  // namespace
}  // namespace troupe::sim
