// SPDX-License-Identifier: Apache-2.0
// What the cache's policies keep: prompt tokens found over prompt tokens, and
// tokens computed again, for value, least recently used and the device alone,
// against a cache without end. Mooncake's conversation trace, and chats with the
// paper's lengths, Poisson starts and exponential think times. Goals: by value
// never more recomputed tokens than by time, and 10 % fewer where memory is short.
// Usage: bench_cache_policy [tokens of context at which attention costs as much
// as the rest (8 B on a GPU: 30000; demo model: 700); 0: never] [seconds of the
// trace; 0: none] [seconds of chats; 0: none]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/cache/cache_replay.hpp"
#include "loadgen/workload/traces/trace_selection.hpp"
#include "loadgen/workload/workload_settings.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

constexpr std::uint32_t kPageSize = 32;

RecomputeCost cost_of_pages(double equal_tokens) {
  RecomputeCost cost{.constant = 1.0, .attention = {}};
  if (equal_tokens <= 0) return cost;
  for (std::uint32_t pages = 1; pages <= 4096; pages *= 2)
    cost.attention.push_back(pages * kPageSize / equal_tokens);
  return cost;
}

struct Arm {
  const char* name;
  EvictionPolicy policy;
  bool has_host;
};

constexpr Arm kArms[] = {{"value", EvictionPolicy::kValue, true},
                         {"lru", EvictionPolicy::kLru, true},
                         {"device only", EvictionPolicy::kValue, false}};

// make: a source of the same conversations each time.
template <typename Make>
void compare(const std::string& workload, std::uint32_t num_pages, std::uint32_t num_host_pages,
             const RecomputeCost& cost, std::chrono::nanoseconds warmup, Make make) {
  bench::ReplayTotals all[std::size(kArms)];
  for (std::size_t i = 0; i < std::size(kArms); ++i) {
    bench::ReplaySettings settings{.cache = {.page_size = kPageSize,
                                             .num_host_pages = kArms[i].has_host ? num_host_pages : 0,
                                             .serving = {.cache_policy = kArms[i].policy},
                                             .cost = cost},
                                   .num_device_pages = num_pages,
                                   .warmup = warmup};
    all[i] = bench::replay(*make(), settings);
  }
  const auto& [value, lru, device_only] = all;
  const auto over_lru = [](double a, double b) { return b > 0 ? a / b : 1.0; };
  std::printf(
      "%-26s %6u + %6u | found %.3f %.3f %.3f of %.3f | again %9llu %9llu | value / lru: tokens %.3f cost "
      "%.3f%s\n",
      workload.c_str(), num_pages, num_host_pages, value.hit_ratio(), lru.hit_ratio(),
      device_only.hit_ratio(), value.ceiling(), static_cast<unsigned long long>(value.recomputed_tokens),
      static_cast<unsigned long long>(lru.recomputed_tokens),
      over_lru(static_cast<double>(value.recomputed_tokens), static_cast<double>(lru.recomputed_tokens)),
      over_lru(value.recompute_cost, lru.recompute_cost), value.num_refused > 0 ? " (some left out)" : "");
  std::fflush(stdout);
}

WorkloadSettings chats(double think_time_s, bool share_system_prompts, double seconds) {
  WorkloadSettings workload = preset("sharegpt-like");
  workload.arrivals.rate = 1;
  workload.max_conversations = 0;
  workload.duration_s = seconds;
  auto& lengths = workload.classes.front();
  lengths.think_time_s = fixed(think_time_s);
  lengths.think_time_s.kind = DistributionSettings::Kind::kExponential;
  if (share_system_prompts) lengths.prefix = {.count = 20, .tokens = 600, .zipf_exponent = 1};
  return workload;
}

void replay_chats(const RecomputeCost& cost, double seconds) {
  for (const bool share : {false, true})
    for (const double think_time_s : {30.0, 60.0, 120.0})
      for (const std::uint32_t num_host_pages : {0U, 2000U, 6000U, 12000U})
        compare("chat, think " + std::to_string(static_cast<int>(think_time_s)) + " s" +
                    (share ? ", shared" : ""),
                2000, num_host_pages, cost, std::chrono::minutes(10),
                [&] { return make_source(chats(think_time_s, share, seconds), 1); });
}

void replay_mooncake(const RecomputeCost& cost, double seconds) {
  const char* data = std::getenv("TROUPE_DATA");
  const std::string file =
      std::string(data ? data : "../shared/data") + "/traces/mooncake_conversation_trace.jsonl";
  if (!std::filesystem::exists(file)) {
    std::printf("SKIPPED: no %s\n", file.c_str());
    return;
  }
  const TraceSettings trace{.file = file, .format = TraceSettings::Format::kMooncake, .until_s = seconds};
  for (const std::uint32_t num_pages : {16'000U, 32'000U})
    for (const std::uint32_t factor : {0U, 1U, 4U, 16U})
      compare("Mooncake", num_pages, num_pages * factor, cost, std::chrono::nanoseconds(0),
              [&] { return open_trace(trace); });
}

}  // namespace

int main(int argc, char** argv) {
  const double equal_tokens = argc > 1 ? std::atof(argv[1]) : 30'000;
  const double trace_seconds = argc > 2 ? std::atof(argv[2]) : 1200;
  const double chat_seconds = argc > 3 ? std::atof(argv[3]) : 2400;
  std::printf(
      "attention costs as much as the rest at %.0f tokens; pages of %u tokens: device + host;\n"
      "found by value, lru, device only, of what a cache without end finds; tokens computed again\n",
      equal_tokens, kPageSize);
  const RecomputeCost cost = cost_of_pages(equal_tokens);
  if (chat_seconds > 0) replay_chats(cost, chat_seconds);
  if (trace_seconds > 0) replay_mooncake(cost, trace_seconds);
  return 0;
}
