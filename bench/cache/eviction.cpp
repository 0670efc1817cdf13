// SPDX-License-Identifier: Apache-2.0
// What giving a page away costs, with 100,000 pages of thousands of
// conversations in the cache: choosing a victim; a page for a running sequence
// (which chooses one on the device and, if that is full, one on the host, and
// forgets conversations nothing is left of); a whole reservation; a branch deep in
// a conversation that goes. Processor time of the one thread, half a microsecond of
// it for reading that clock. Goal: 20 us a choice.
// Usage: bench_eviction [device pages] [host pages]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/processor_time.hpp"
#include "loadgen/simulator/synthetic_tokens.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/workload_settings.hpp"
#include "policy/pages/page_cache.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kPageSize = 32;
constexpr double kGoalMicroseconds = 20;
constexpr int kChoices = 20'000;
constexpr int kReservations = 2'000;
constexpr std::uint32_t kBranches = 500;

// In proportion to a Llama of 8 billion parameters, whose attention costs as
// much as its matrices at 30,000 tokens.
RecomputeCost cost_of_pages() {
  RecomputeCost cost{.constant = 1.0, .attention = {}};
  for (std::uint32_t pages = 1; pages <= 4096; pages *= 2)
    cost.attention.push_back(pages * kPageSize / 30'000.0);
  return cost;
}

// Conversations in the lengths of chats, one begun every tenth of a second.
class PlayedCache {
 public:
  PlayedCache(EvictionPolicy policy, std::uint32_t num_pages, std::uint32_t num_host_pages)
      : cache({.page_size = kPageSize,
               .num_host_pages = num_host_pages,
               .serving = {.cache_policy = policy, .copy_ahead_below = 0},
               .cost = cost_of_pages()}) {
    cache.add_worker(0, num_pages);
    WorkloadSettings workload = preset("sharegpt-like");
    workload.arrivals.rate = 10;
    workload.max_conversations = 1'000'000;
    workload.classes.front().prefix = {.count = 8, .tokens = 500, .zipf_exponent = 1};
    source_ = make_source(workload, 1);
  }

  // Until every page is in use and some have been given away.
  void fill() {
    while (cache.counts().free > 0 || cache.counts().host_free > 0) converse();
    for (std::uint32_t i = 0; i < cache.counts().total / 100; ++i) converse();
  }

  // All turns at once: what is left is the same.
  void converse() {
    source_->next(conversation_);
    tokens_.clear();
    for (const PrefixBlock& block : conversation_.prefix) append_prefix(tokens_, block);
    for (std::uint32_t turn = 0; turn < conversation_.turns.size(); ++turn) {
      append_prompt(tokens_, conversation_.number, turn, conversation_.turns[turn].prompt_tokens);
      append_answer(tokens_, conversation_.number, turn, conversation_.turns[turn].output_tokens);
    }
    now = Clock::time_point(conversation_.start);
    run(tokens_);
    num_conversations += 1;
  }

  void run(const std::vector<std::int32_t>& tokens) {
    const auto num_pages = static_cast<std::uint32_t>(tokens.size() / kPageSize);
    const PageDemand demand{.required = num_pages, .wanted = num_pages};
    const double begin = bench::microseconds_used();
    if (!cache.leases().reserve(0, last_lease, TenantId{0}, tokens, demand, now)) std::exit(1);
    reserve_microseconds = bench::microseconds_used() - begin;
    for (std::uint32_t page = 0; page < num_pages; ++page)
      cache.leases().commit(last_lease, page, std::span(tokens).subspan(page * kPageSize, kPageSize), now);
    cache.leases().release(last_lease++, now);
    cache.host().take_copies(0);
  }

  PageCache cache;
  Clock::time_point now;
  double reserve_microseconds = 0;  // the last one's
  LeaseId last_lease = 0;
  std::uint32_t num_conversations = 0;

 private:
  std::unique_ptr<ConversationSource> source_;
  PlannedConversation conversation_;
  std::vector<std::int32_t> tokens_;
};

void print(const char* what, const char* policy, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double rank) {
    return samples[static_cast<std::size_t>(rank * static_cast<double>(samples.size() - 1))];
  };
  std::printf("%-5s %-34s p50 %7.2f us  p90 %7.2f  p99 %7.2f  worst %8.2f; p99 / goal %.3f\n", policy, what,
              at(0.5), at(0.9), at(0.99), samples.back(), at(0.99) / kGoalMicroseconds);
}

// The queue alone: one entry a page of conversations begun a tenth of a second
// apart, of which the lowest is chosen and replaced by a new one.
void measure_choices(const char* name, EvictionPolicy policy, std::uint32_t num_pages) {
  constexpr std::uint32_t kPagesEach = 40;
  const RecomputeCost cost = cost_of_pages();
  EvictionQueue queue({.cache_policy = policy});
  std::uint32_t last = 0;
  const auto add = [&](std::uint32_t id) {
    const std::uint32_t depth = last % kPagesEach;
    const Clock::time_point used{std::chrono::milliseconds(100) * (last++ / kPagesEach)};
    queue.insert({.id = id, .worth = cost.of_page(depth), .depth = depth, .last_used = used});
  };
  for (std::uint32_t id = 0; id < num_pages; ++id) add(id);
  std::vector<double> times;
  for (int i = 0; i < kChoices; ++i) {
    const Clock::time_point now{std::chrono::milliseconds(100) * (last / kPagesEach + 1)};
    const double begin = bench::microseconds_used();
    const auto victim = queue.lowest(now);
    times.push_back(bench::microseconds_used() - begin);
    queue.erase(*victim);
    add(*victim);
  }
  print("a choice, nothing done", name, times);
}

// A page at a time: each takes the place of one that is chosen.
void measure_pages(const char* what, const char* policy, PlayedCache& played, int num_pages) {
  const std::vector<std::int32_t> prompt(kPageSize, 7);
  played.cache.leases().reserve(0, played.last_lease, TenantId{0}, prompt, {.required = 1, .wanted = 1},
                                played.now);
  std::vector<double> times;
  for (int i = 0; i < num_pages; ++i) {
    played.now += std::chrono::milliseconds(1);
    const double begin = bench::microseconds_used();
    const auto page =
        played.cache.leases().extend(played.last_lease, {.required = 1, .wanted = 1}, played.now);
    times.push_back(bench::microseconds_used() - begin);
    if (!page) std::exit(1);
    played.cache.host().take_copies(0);
  }
  played.cache.leases().release(played.last_lease++, played.now);
  print(what, policy, times);
}

void measure_reservations(const char* policy, PlayedCache& played) {
  while (played.cache.counts().free > 0) played.converse();
  std::vector<double> times;
  for (int i = 0; i < kReservations; ++i) {
    const auto before = played.cache.statistics();
    played.converse();
    const auto& after = played.cache.statistics();
    const auto given =
        after.reclaimed + after.dropped_from_device - before.reclaimed - before.dropped_from_device;
    if (given > 0) times.push_back(played.reserve_microseconds / static_cast<double>(given));
  }
  print("a reservation, a page given away", policy, times);
}

// Other answers below the same long beginning: each adds one to those who would
// miss a page of it, and takes one away when it goes, which it does first.
void measure_branches(const char* policy, EvictionPolicy kind) {
  constexpr std::uint32_t kTrunk = 1000;
  PlayedCache played(kind, kTrunk + kBranches, 0);
  std::vector<std::int32_t> tokens;
  append_prompt(tokens, 1, 0, kTrunk * kPageSize);
  played.run(tokens);
  for (std::uint32_t branch = 0; branch < kBranches; ++branch) {
    tokens.resize(kTrunk * kPageSize);
    append_answer(tokens, branch, 1, kPageSize);
    played.now += std::chrono::milliseconds(1);
    played.run(tokens);
  }
  measure_pages("the end of a branch below 1,000", policy, played, kBranches - 1);
}

}  // namespace

int main(int argc, char** argv) {
  const auto num_pages = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 100'000);
  const auto num_host_pages = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  for (const auto policy : {EvictionPolicy::kValue, EvictionPolicy::kLru}) {
    const char* name = policy == EvictionPolicy::kValue ? "value" : "lru";
    PlayedCache played(policy, num_pages, num_host_pages);
    played.fill();
    std::printf("%s: %u pages on the device, %u on the host, %u conversations seen, %zu nodes\n", name,
                num_pages, num_host_pages, played.num_conversations, played.cache.num_nodes());
    measure_choices(name, policy, num_pages + num_host_pages);
    measure_pages("a page, its victim chosen", name, played, kChoices);
    measure_reservations(name, played);
    measure_branches(name, policy);
  }
  return 0;
}
