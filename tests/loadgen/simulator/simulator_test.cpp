// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/loadgen/simulator/simulated_traffic.hpp"
#include "tests/support/sanitizers.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

Simulation play(const CostProfile& profile, std::vector<PlannedConversation> conversations,
                SimulationSettings settings = {}) {
  ListedConversations source(std::move(conversations));
  return simulate(profile, source, {RequestClass{}}, settings);
}

// By conversation and turn.
std::vector<RequestRecord> sorted(const Simulation& simulation) {
  auto records = simulation.result.records;
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::pair(a.conversation, a.turn) < std::pair(b.conversation, b.turn);
  });
  return records;
}

std::vector<PlannedConversation> random_traffic(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<PlannedConversation> conversations;
  std::chrono::nanoseconds start{0};
  for (int i = 0; i < count; ++i) {
    start += std::chrono::microseconds(random() % 4000);
    PlannedConversation conversation = lone_request(start, 1 + random() % 200, 1 + random() % 60);
    if (random() % 3 == 0) conversation.prefix.push_back({.id = random() % 3, .num_tokens = 40});
    if (random() % 4 == 0) {
      conversation.turns.push_back(conversation.turns[0]);
      conversation.turns[1].think_time = std::chrono::milliseconds(random() % 50);
    }
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

bool is_equal(const Simulation& a, const Simulation& b) {
  if (a.result.records.size() != b.result.records.size()) return false;
  for (std::size_t i = 0; i < a.result.records.size(); ++i) {
    const auto& x = a.result.records[i];
    const auto& y = b.result.records[i];
    if (x.conversation != y.conversation || x.turn != y.turn || x.first_token != y.first_token ||
        x.finished != y.finished || x.gaps_us != y.gaps_us)
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("simulator: a lone request takes a batch for its prompt and one a token after it") {
  const auto records = play(plain_profile(), {lone_request(5ms, 20, 4)}).result.records;
  REQUIRE(records.size() == 1);
  CHECK(records[0].outcome == Outcome::kCompleted);
  CHECK(records[0].intended == 5ms);
  CHECK(records[0].first_token == 6ms);
  CHECK(records[0].finished == 9ms);
  CHECK(records[0].output_tokens == 4);
  CHECK(records[0].gaps_us == std::vector<std::uint32_t>{1000, 1000, 1000});
}

TEST_CASE("simulator: a long prompt is read in chunks") {
  const auto simulation = play(plain_profile(), {lone_request(0ms, 70, 1)});
  CHECK(simulation.totals.num_batches == 3);  // 32, 32 and 6 tokens
  CHECK(simulation.result.records[0].first_token == 3ms);
}

TEST_CASE("simulator: the overheads come before the queue, in each batch and at the end") {
  auto profile = plain_profile();
  profile.overheads.request = 1000;
  profile.overheads.per_prompt_token = 100;
  profile.overheads.iteration = 50'000;
  profile.overheads.iteration_per_sequence = 7'000;
  profile.overheads.end = 300;
  const auto records = play(profile, {lone_request(0ms, 20, 1)}).result.records;
  CHECK(records[0].first_token == 1'060'000ns);
  CHECK(records[0].finished == 1'060'300ns);
}

TEST_CASE("simulator: with one batch in flight the engine's turnaround is waited for each time") {
  auto profile = plain_profile();
  profile.overheads.turnaround = 1e5;
  profile.serving.settings.max_in_flight = 1;
  CHECK(play(profile, {lone_request(0ms, 20, 10)}).result.records[0].finished == 11ms);
  profile.serving.settings.max_in_flight = 2;  // the next batch is there already
  CHECK(play(profile, {lone_request(0ms, 20, 10)}).result.records[0].finished == 10'100us);
}

TEST_CASE("simulator: a newcomer waits for the batches that are in flight") {
  const auto simulation = play(plain_profile(), {lone_request(0ms, 20, 50), lone_request(10'500us, 20, 1)});
  const auto records = sorted(simulation);
  // Batches until 11 ms and 12 ms are on the device; the one after has both.
  CHECK(records[1].first_token == 13ms);
  CHECK(records[0].finished == 50ms);
}

TEST_CASE("simulator: with all slots taken others wait, and start in order of arrival") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  const auto records =
      sorted(play(profile, {lone_request(0ms, 8, 5), lone_request(1ms, 8, 5), lone_request(2ms, 8, 5)}));
  CHECK(records[0].finished == 5ms);
  CHECK(records[1].first_token > records[0].finished);
  CHECK(records[2].first_token > records[1].finished);
  CHECK(*records[1].server_queue == 4ms);
}

TEST_CASE("simulator: beyond the queue's limit requests are refused at once") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  profile.serving.settings.max_waiting = 1;
  const auto records =
      sorted(play(profile, {lone_request(0ms, 8, 50), lone_request(1ms, 8, 5), lone_request(2ms, 8, 5)}));
  CHECK(records[2].outcome == Outcome::kRefused);
  CHECK(records[2].status == 429);
  CHECK(records[2].finished == 2ms);
  CHECK(records[1].outcome == Outcome::kCompleted);
}

TEST_CASE("simulator: who waits too long is refused when the queue is looked through") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  profile.serving.settings.max_queue_time = 300ms;
  const auto records = sorted(play(profile, {lone_request(0ms, 8, 900), lone_request(1ms, 8, 5)}));
  CHECK(records[1].outcome == Outcome::kRefused);
  CHECK(records[1].finished == 500ms);
}

TEST_CASE("simulator: what can never be served is rejected") {
  const auto records = sorted(play(plain_profile(), {lone_request(0ms, 1024, 1), lone_request(0ms, 1000, 30),
                                                     lone_request(0ms, 1000, 24)}));
  CHECK(records[0].outcome == Outcome::kRejected);
  CHECK(records[0].status == 400);
  CHECK(records[1].outcome == Outcome::kCompleted);  // with the tokens that there is room for
  CHECK(records[2].outcome == Outcome::kCompleted);
}

TEST_CASE("simulator: when pages run out the youngest gives way and is done later all the same") {
  auto profile = plain_profile();
  profile.serving.num_pages = 20;
  profile.serving.limits.page_capacity = 320;
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 6; ++i) conversations.push_back(lone_request(i * 1ms, 30, 200));
  const auto simulation = play(profile, conversations);
  CHECK(simulation.totals.num_preemptions > 0);
  for (const auto& record : simulation.result.records) {
    CHECK(record.outcome == Outcome::kCompleted);
    CHECK(record.gaps_us.size() == 199);
  }
  CHECK(simulation.totals.output_tokens == 6 * 200);
}

TEST_CASE("simulator: a turn waits for the one before and its think time, and finds it cached") {
  auto profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  auto conversation = lone_request(0ms, 40, 9);
  conversation.turns.push_back(conversation.turns[0]);
  conversation.turns[1].think_time = 30ms;
  const auto records = sorted(play(profile, {conversation}));
  REQUIRE(records.size() == 2);
  CHECK(records[1].intended == records[0].finished + 30ms);
  CHECK(records[1].prompt_tokens == 40 + 9 + 40);
  CHECK(records[0].cached_tokens == 0);
  CHECK(records[1].cached_tokens == 48);  // three full pages of the 48 computed tokens
}

TEST_CASE("simulator: equal prefixes are shared between conversations, others not") {
  auto profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  std::vector<PlannedConversation> conversations;
  for (const std::uint64_t id : {1, 1, 2}) {
    conversations.push_back(lone_request(conversations.size() * 50ms, 20, 2));
    conversations.back().prefix.push_back({.id = id, .num_tokens = 64});
  }
  const auto records = sorted(play(profile, conversations));
  CHECK(records[0].prompt_tokens == 84);
  CHECK(records[1].cached_tokens == 64);
  CHECK(records[2].cached_tokens == 0);
}

TEST_CASE(
    "simulator: copies between host and device take their time, and are not made where that is dearer") {
  auto profile = plain_profile();
  auto& server = profile.serving;
  server.settings.cache_policy = EvictionPolicy::kValue;
  server.num_pages = 24;
  server.num_host_pages = 100;
  server.limits.page_capacity = 24 * 16;
  server.recompute_cost.constant = 1e9;  // nanoseconds: any load is cheaper
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 6; ++i) {  // each needs nearly half of the device
    conversations.push_back(lone_request(i * 200ms, 150, 4));
    conversations.back().turns.push_back({.think_time = 3s, .prompt_tokens = 4, .output_tokens = 4});
  }
  const auto free_copies = play(profile, conversations);
  CHECK(free_copies.totals.num_loads > 0);
  server.load_from_host = {.fixed = 1e6, .per_page = 20e6};
  const auto dear_copies = play(profile, conversations);
  const auto copies = dear_copies.totals.num_loads + dear_copies.totals.num_stores;
  CHECK(dear_copies.totals.num_loads > 0);
  CHECK(dear_copies.result.duration >= copies * 20ms);
  const auto last_turn = [](const Simulation& simulation) {
    const auto record = sorted(simulation).back();
    return record.first_token - record.intended;
  };
  CHECK(last_turn(dear_copies) > last_turn(free_copies) + 20ms);
  server.recompute_cost.constant = 1e6;  // a page is computed again in a millisecond
  CHECK(play(profile, conversations).totals.num_loads == 0);
}

TEST_CASE("simulator: copies ahead of need after a long prompt do not hold up the short batches behind it") {
  auto profile = plain_profile();
  auto& server = profile.serving;
  server.settings.cache_policy = EvictionPolicy::kValue;
  server.settings.max_batch_tokens = server.settings.prefill_chunk = 1024;
  server.num_pages = 48;
  server.num_host_pages = 100;
  server.limits.page_capacity = 48 * 16;
  server.recompute_cost.constant = 1e9;
  server.load_from_host = {.fixed = 0, .per_page = 1e6};
  profile.iteration.per_prefill_pair = 1000;  // 200 ms for 640 tokens
  // The first leaves dirty pages behind, of which copies go ahead while the second decodes.
  const auto simulation = play(profile, {lone_request(0ms, 100, 2), lone_request(500ms, 640, 8)});
  CHECK(simulation.totals.num_stores > 0);
  const auto gaps = sorted(simulation)[1].gaps_us;
  CHECK(*std::max_element(gaps.begin(), gaps.end()) < 3000);
}

TEST_CASE("simulator: what the host has no room for comes back from the disk, in the disk's time") {
  auto profile = plain_profile();
  auto& server = profile.serving;
  server.settings.cache_policy = EvictionPolicy::kValue;
  server.num_pages = 24;
  server.num_host_pages = 12;
  server.num_disk_pages = 200;
  server.limits.page_capacity = 24 * 16;
  server.recompute_cost.constant = 1e9;  // nanoseconds: any load is cheaper
  server.load_from_host = {.fixed = 0, .per_page = 1e5};
  server.disk = {.fixed = 0, .per_page = 1e6};
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 6; ++i) {
    conversations.push_back(lone_request(i * 300ms, 150, 4));
    conversations.back().turns.push_back({.think_time = 5s, .prompt_tokens = 4, .output_tokens = 4});
  }
  const auto quick = play(profile, conversations);
  CHECK(quick.totals.num_writes > 0);
  CHECK(quick.totals.num_reads > 0);
  server.disk.per_page = 20e6;
  const auto slow = play(profile, conversations);
  const auto wait = [](const Simulation& simulation) {
    const auto record = sorted(simulation)[1];  // the first conversation's second turn
    return record.first_token - record.intended;
  };
  CHECK(sorted(slow)[1].cached_tokens == sorted(quick)[1].cached_tokens);
  CHECK(wait(slow) > wait(quick) + 19ms);
  server.num_disk_pages = 0;
  CHECK(play(profile, conversations).totals.num_reads == 0);
}

TEST_CASE("simulator: the workers of one server get the turns of which they have the beginning") {
  auto profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 9; ++i) {
    conversations.push_back(lone_request(i * 2ms, 100, 4));
    for (int turn = 1; turn < 4; ++turn)
      conversations.back().turns.push_back({.think_time = 20ms, .prompt_tokens = 7, .output_tokens = 4});
  }
  const auto cached = [&](std::optional<DispatchKind> dispatch) {
    std::uint64_t tokens = 0;
    for (const auto& record :
         play(profile, conversations, {.num_workers = 3, .dispatch = dispatch}).result.records)
      tokens += record.cached_tokens;
    return tokens;
  };
  CHECK(cached(std::nullopt) > 9 * 3 * 96);
  CHECK(cached(DispatchKind::kPowerOfTwo) < cached(std::nullopt) * 3 / 4);
}

TEST_CASE("simulator: workers of one server may be of several kinds") {
  auto slow = plain_profile();
  slow.iteration.fixed = 10e6;
  const std::vector<WorkerKind> kinds = {{.profile = plain_profile()}, {.profile = slow}};
  const auto run = [&] {
    ListedConversations source(std::vector<PlannedConversation>(2, lone_request(0ms, 8, 5)));
    return simulate(kinds, source, {RequestClass{}}, {.dispatch = std::nullopt});
  };
  const auto records = sorted(run());
  CHECK(records[0].finished == 5ms);
  CHECK(records[1].finished == 50ms);
  auto other_pages = kinds;
  other_pages[1].profile.serving.page_size = 32;
  ListedConversations source({});
  CHECK_THROWS_WITH_AS(simulate(other_pages, source, {RequestClass{}}, {.dispatch = std::nullopt}),
                       "simulation: expected workers of one server with pages of 16 tokens, got 32",
                       std::runtime_error);
}

TEST_CASE("simulator: a worker that is lost comes back, and what it ran is answered all the same") {
  for (const auto dispatch : {std::optional<DispatchKind>(), std::optional(DispatchKind::kRoundRobin)}) {
    const SimulationSettings settings{
        .num_workers = 2, .dispatch = dispatch, .losses = {.mean_time = 60ms, .restart_time = 10ms}};
    const auto simulation = play(plain_profile(), random_traffic(3, 100), settings);
    CHECK(simulation.totals.num_losses > 3);
    CHECK(is_equal(simulation, play(plain_profile(), random_traffic(3, 100), settings)));
    std::size_t num_completed = 0;
    for (const auto& record : simulation.result.records) {
      const bool is_ended = record.outcome == Outcome::kCompleted || record.outcome == Outcome::kBroken;
      CHECK(is_ended);
      num_completed += record.outcome == Outcome::kCompleted ? 1 : 0;
    }
    CHECK(num_completed > simulation.result.records.size() / 2);
  }
}

TEST_CASE("simulator: a client that hangs up frees its place at once, and has no further turn") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  auto given_up = lone_request(0ms, 8, 500);
  given_up.turns[0].cancelled_after = 20ms;
  given_up.turns.push_back(given_up.turns[0]);
  auto waiting = lone_request(1ms, 8, 5);
  auto never_began = lone_request(2ms, 8, 5);
  never_began.turns[0].cancelled_after = 3ms;
  const auto simulation = play(profile, {given_up, waiting, never_began});
  const auto records = sorted(simulation);
  REQUIRE(records.size() == 3);
  CHECK(records[0].outcome == Outcome::kCancelled);
  CHECK(records[0].finished == 20ms);
  CHECK(records[0].gaps_us.size() > 10);
  CHECK(records[0].output_tokens == records[0].gaps_us.size() + 1);
  CHECK(records[1].outcome == Outcome::kCompleted);
  CHECK(records[1].first_token < 25ms);
  CHECK(records[2].outcome == Outcome::kCancelled);
  CHECK(records[2].finished == 5ms);
}

TEST_CASE("simulator: a run is no longer for a client that would have hung up after its answer") {
  auto patient = lone_request(0ms, 8, 5);
  patient.turns[0].cancelled_after = 60s;
  const auto simulation = play(plain_profile(), {patient});
  CHECK(simulation.result.records.at(0).outcome == Outcome::kCompleted);
  CHECK(simulation.result.duration == simulation.result.records[0].finished);
}

TEST_CASE("simulator: a closed loop whose users come back in no time is refused") {
  class Endless final : public ConversationSource {
   public:
    explicit Endless(PlannedConversation conversation) : conversation_(std::move(conversation)) {}
    bool next(PlannedConversation& conversation) override {
      conversation = conversation_;
      return true;
    }

   private:
    PlannedConversation conversation_;
  };
  auto conversation = lone_request(0ms, 8, 5);
  SUBCASE("since they hang up at once") { conversation.turns[0].cancelled_after = 0ms; }
  SUBCASE("since they can't be served") { conversation.turns[0].prompt_tokens = 2000; }
  Endless source(conversation);
  CHECK_THROWS_WITH_AS(
      simulate(plain_profile(), source, {RequestClass{}}, {.num_users = 2, .duration = 1s}),
      doctest::Contains("simulation: expected users whose conversations take time, or a pause, got 100003"),
      std::runtime_error);
}

TEST_CASE("simulator: a client that stops reading is refused") {
  auto conversation = lone_request(0ms, 8, 5);
  conversation.turns[0].stops_reading_after = 1ms;
  CHECK_THROWS_WITH_AS(play(plain_profile(), {conversation}),
                       "simulation: expected clients that read, got one of conversation 0 that stops",
                       std::runtime_error);
}

TEST_CASE("simulator: batches take what is fitted times a residual that is drawn by the seed") {
  auto profile = plain_profile();
  profile.residuals = {2, 2};
  CHECK(play(profile, {lone_request(0ms, 20, 4)}).result.records[0].finished == 8ms);
  profile.residuals = {0.5, 1, 1.5};
  const auto play_with = [&](std::uint64_t seed) {
    return play(profile, {lone_request(0ms, 20, 200)}, {.seed = seed});
  };
  CHECK(is_equal(play_with(1), play_with(1)));
  CHECK_FALSE(is_equal(play_with(1), play_with(2)));
  const auto gaps = play_with(1).result.records[0].gaps_us;
  const auto [least, most] = std::minmax_element(gaps.begin(), gaps.end());
  CHECK(*least < 600);
  CHECK(*most > 1400);
}

TEST_CASE("simulator: a refused turn ends its conversation") {
  auto conversation = lone_request(0ms, 2000, 5);
  conversation.turns.push_back(conversation.turns[0]);
  CHECK(play(plain_profile(), {conversation}).result.records.size() == 1);
}

TEST_CASE("simulator: a closed loop keeps as many conversations under way as it has users") {
  std::vector<PlannedConversation> conversations(20, lone_request(0ms, 8, 10));
  for (auto& conversation : conversations) conversation.turns[0].think_time = 5ms;
  const auto records = sorted(play(plain_profile(), conversations, {.num_users = 3}));
  REQUIRE(records.size() == 20);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto under_way = std::count_if(records.begin(), records.end(), [&](const auto& other) {
      return other.intended <= records[i].intended && other.finished > records[i].intended;
    });
    CHECK(under_way <= 3);
  }
  CHECK(records[0].intended == 0ms);
  CHECK(records[3].intended == records[0].finished + 5ms);
}

TEST_CASE("simulator: nothing is sent after the duration, what was sent is finished") {
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 10; ++i) conversations.push_back(lone_request(i * 10ms, 8, 3));
  const auto simulation = play(plain_profile(), conversations, {.duration = 45ms});
  CHECK(simulation.result.records.size() == 5);
}

TEST_CASE("simulator: on random traffic each turn ends once, on any number of workers") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    auto profile = plain_profile();
    profile.serving.settings.cache_policy = seed % 2 == 0 ? EvictionPolicy::kValue : EvictionPolicy::kNone;
    profile.serving.num_pages = seed % 3 == 0 ? 40 : 256;
    profile.serving.limits.page_capacity = profile.serving.num_pages * 16;
    const auto traffic = random_traffic(seed, 150);
    SimulationSettings settings{.num_workers = 1 + static_cast<std::uint32_t>(seed % 4)};
    settings.dispatch = seed % 5 > 0 ? std::optional(static_cast<DispatchKind>(seed % 4)) : std::nullopt;
    const auto simulation = play(profile, traffic, settings);
    std::set<std::pair<std::uint64_t, std::uint32_t>> seen;
    std::uint64_t num_tokens = 0;
    for (const auto& record : simulation.result.records) {
      CHECK(seen.emplace(record.conversation, record.turn).second);
      CHECK(record.outcome == Outcome::kCompleted);
      CHECK(record.first_token > record.intended);
      CHECK(record.gaps_us.size() + 1 == record.output_tokens);
      num_tokens += record.output_tokens;
    }
    std::size_t num_turns = 0;
    for (const auto& conversation : traffic) num_turns += conversation.turns.size();
    CHECK(seen.size() == num_turns);
    CHECK(num_tokens == simulation.totals.output_tokens);
  }
}

TEST_CASE("simulator: counted pages and the page pool decide alike where nothing is shared") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    auto traffic = random_traffic(seed, 100);
    for (auto& conversation : traffic) {
      conversation.prefix.clear();
      conversation.turns.resize(1);
    }
    auto profile = plain_profile();
    profile.serving.num_pages = 80;  // scarce, but nobody loses pages and finds them again
    profile.serving.limits.page_capacity = 80 * 16;
    const auto counted = play(profile, traffic);
    REQUIRE(counted.totals.num_preemptions == 0);
    profile.serving.settings.cache_policy = EvictionPolicy::kValue;
    CHECK(is_equal(counted, play(profile, traffic)));
  }
}

TEST_CASE("simulator: equal seeds give equal results, other seeds others") {
  const auto run = [](std::uint64_t seed) {
    return play(plain_profile(), random_traffic(5, 200),
                {.num_workers = 3, .dispatch = DispatchKind::kPowerOfTwo, .seed = seed});
  };
  CHECK(is_equal(run(1), run(1)));
  CHECK_FALSE(is_equal(run(1), run(2)));
}

TEST_CASE("simulator: samples show what runs and waits on all workers") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  std::vector<PlannedConversation> conversations(5, lone_request(0ms, 8, 40));
  const auto simulation = play(profile, conversations, {.num_workers = 2, .sample_interval = 10ms});
  const auto& samples = simulation.result.samples;
  REQUIRE(samples.size() > 3);
  CHECK(samples[0].time == 10ms);
  CHECK(samples[0].num_running == 2);
  CHECK(samples[0].num_waiting == 3);
  CHECK(samples[0].pages_total == 512);
  CHECK(samples[0].pages_used > 0);
  CHECK(samples[1].batch_tokens == 1);
  CHECK(samples.back().num_running == 0);
  CHECK(samples.back().generation_tokens == 200);
}

TEST_CASE("simulator: waits are those of the M/D/1 queue where service takes one fixed time") {
  auto profile = plain_profile();
  profile.serving.settings.max_batch_sequences = 1;
  profile.serving.settings.prefill_chunk = 64;
  profile.serving.settings.max_in_flight = 1;
  profile.serving.settings.max_waiting = 1'000'000;
  profile.serving.settings.max_queue_time = 1h;
  constexpr std::uint64_t kRequests = test::fewer_if_sanitized(200'000);
  for (const double load : {0.5, 0.8}) {
    CAPTURE(load);
    std::mt19937_64 random(7);
    std::exponential_distribution<double> gap(load / 1e6);  // service takes 1e6 ns
    std::vector<PlannedConversation> conversations;
    double start = 0;
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      start += gap(random);
      conversations.push_back(lone_request(std::chrono::nanoseconds(static_cast<std::int64_t>(start)), 8, 1));
    }
    double wait = 0;
    for (const auto& record : play(profile, conversations).result.records)
      wait += static_cast<double>((record.time_to_first_token() - 1ms).count());
    wait /= static_cast<double>(kRequests);
    // Pollaczek and Khinchine; a mean of fewer is less certain.
    CHECK(wait == doctest::Approx(1e6 * load / (2 * (1 - load))).epsilon(kRequests < 200'000 ? 0.06 : 0.03));
  }
}

TEST_CASE("simulator: impossible questions are refused") {
  CHECK_THROWS_WITH_AS(play(plain_profile(), {}, {.num_workers = 0}),
                       "simulation: expected at least one worker, got 0", std::runtime_error);
  auto profile = plain_profile();
  profile.iteration.fixed = -1;
  CHECK_THROWS_AS(play(profile, {}), std::runtime_error);
  auto conversation = lone_request(0ms, 1, 1);
  conversation.request_class = 3;
  CHECK_THROWS_WITH_AS(play(plain_profile(), {conversation}),
                       "conversation 0: expected one of 1 request classes, got number 3", std::runtime_error);
}

TEST_CASE("simulator: work beyond what its clock counts is refused") {
  constexpr std::chrono::nanoseconds kLate{9'223'372'036'854'000'000};
  const auto refusal =
      doctest::Contains("simulation: expected an end within 9000000000.000000 s, got work at ");
  CHECK_THROWS_WITH_AS(play(plain_profile(), {lone_request(kLate, 20, 4)}), refusal, std::runtime_error);
  auto conversation = lone_request(0ms, 20, 4);
  conversation.turns.push_back(conversation.turns[0]);
  conversation.turns[1].think_time = std::chrono::nanoseconds::max();
  CHECK_THROWS_WITH_AS(play(plain_profile(), {conversation}), refusal, std::runtime_error);
}

TEST_CASE("simulator: a run without requests is empty") {
  const auto simulation = play(plain_profile(), {});
  CHECK(simulation.result.records.empty());
  CHECK(simulation.result.duration == 0ms);
  CHECK(simulation.result.is_simulated);
}
