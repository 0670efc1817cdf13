// SPDX-License-Identifier: Apache-2.0
// What the cache's policies keep: prompt tokens found over prompt tokens, and
// tokens computed again and their cost, by value with several exponents of age
// against least recently used and the device alone, against a cache without end.
// Chats with the paper's lengths, Poisson starts and exponential, log-normal and
// Pareto think times, and Mooncake's conversation trace (docs/workloads.md says
// where it is). Goals: by value never more recomputed tokens than by time, and
// 10 % fewer where memory is short. Decision 0012.
// Usage: bench_cache_policy [tokens of context at which attention costs as much
// as the rest (8 B on a GPU: 30000; demo model: 700); 0: never] [seconds of the
// trace; 0: none] [seconds of chats; 0: none] [the trace's file]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "bench/cache/cache_replay.hpp"
#include "bench/cache/think_times.hpp"
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

constexpr double kExponents[] = {1.0, 1.5, 2.0};
constexpr std::chrono::minutes kWarmup{10};

struct Sizes {
  std::uint32_t num_pages = 0, num_host_pages = 0;
};

// make: a source of the same conversations each time.
template <typename Make>
class Comparison {
 public:
  Comparison(Sizes sizes, const RecomputeCost& cost, std::chrono::nanoseconds warmup, Make make)
      : sizes_(sizes), cost_(cost), warmup_(warmup), make_(std::move(make)) {}

  void print(const std::string& workload) const {
    const auto lru = play({.cache_policy = EvictionPolicy::kLru}, sizes_.num_host_pages);
    const auto device_only = play({}, 0);
    const auto value = play({}, sizes_.num_host_pages);
    std::printf("%-30s %6u + %6u | %.3f %.3f %.3f of %.3f | %9llu |", workload.c_str(), sizes_.num_pages,
                sizes_.num_host_pages, value.hit_ratio(), lru.hit_ratio(), device_only.hit_ratio(),
                value.ceiling(), static_cast<unsigned long long>(lru.recomputed_tokens));
    for (const double exponent : kExponents) {
      const auto played = play({.age_exponent = exponent}, sizes_.num_host_pages);
      std::printf(
          " %.3f (%.3f)",
          over(static_cast<double>(played.recomputed_tokens), static_cast<double>(lru.recomputed_tokens)),
          over(played.recompute_cost, lru.recompute_cost));
    }
    std::printf("%s\n", value.num_refused > 0 ? " (some left out)" : "");
    std::fflush(stdout);
  }

 private:
  bench::ReplayTotals play(const ServingSettings& serving, std::uint32_t num_host_pages) const {
    const bench::ReplaySettings settings{.cache = {.page_size = kPageSize,
                                                   .num_host_pages = num_host_pages,
                                                   .serving = serving,
                                                   .cost = cost_},
                                         .num_device_pages = sizes_.num_pages,
                                         .warmup = warmup_};
    return bench::replay(*make_(), settings);
  }
  static double over(double a, double b) { return b > 0 ? a / b : 1.0; }

  Sizes sizes_;
  const RecomputeCost& cost_;
  std::chrono::nanoseconds warmup_;
  Make make_;
};

WorkloadSettings chats(const DistributionSettings& think_time_s, bool share_system_prompts, double seconds) {
  WorkloadSettings workload = bench::chats(think_time_s, seconds);
  if (share_system_prompts)
    workload.classes.front().prefix = {.count = 20, .tokens = 600, .zipf_exponent = 1};
  return workload;
}

void replay_chats(const RecomputeCost& cost, double seconds) {
  const auto play = [&](const std::string& name, const DistributionSettings& think_time_s, bool share,
                        std::uint32_t num_host_pages) {
    const auto make = [&] { return make_source(chats(think_time_s, share, seconds), 1); };
    Comparison({.num_pages = 2000, .num_host_pages = num_host_pages}, cost, kWarmup, make).print(name);
  };
  for (const bool share : {false, true})
    for (const double think_time_s : {30.0, 60.0, 120.0})
      for (const std::uint32_t num_host_pages : {0U, 2000U, 6000U, 12000U})
        play("exponential, " + std::to_string(static_cast<int>(think_time_s)) + " s" +
                 (share ? ", shared" : ""),
             bench::exponential(think_time_s), share, num_host_pages);
  for (const std::uint32_t num_host_pages : {2000U, 6000U, 12000U})
    play("log-normal, median 20 s", bench::log_normal(), false, num_host_pages);
  for (const std::uint32_t num_host_pages : {2000U, 6000U, 12000U})
    play("Pareto, 60 s", bench::pareto(), false, num_host_pages);
}

void replay_mooncake(const std::string& file, const RecomputeCost& cost, double seconds) {
  if (!std::filesystem::exists(file)) {
    std::printf("SKIPPED: no %s\n", file.c_str());
    return;
  }
  const TraceSettings trace{.file = file, .format = TraceSettings::Format::kMooncake, .until_s = seconds};
  for (const std::uint32_t num_pages : {16'000U, 32'000U})
    for (const std::uint32_t factor : {0U, 1U, 4U, 16U})
      Comparison({.num_pages = num_pages, .num_host_pages = num_pages * factor}, cost, {}, [&] {
        return open_trace(trace);
      }).print("Mooncake");
}

}  // namespace

int main(int argc, char** argv) {
  const double equal_tokens = argc > 1 ? std::atof(argv[1]) : 30'000;
  const double trace_seconds = argc > 2 ? std::atof(argv[2]) : 1200;
  const double chat_seconds = argc > 3 ? std::atof(argv[3]) : 2400;
  const std::string trace_file = argc > 4 ? argv[4] : "mooncake_conversation_trace.jsonl";
  std::printf(
      "attention costs as much as the rest at %.0f tokens; pages of %u tokens: device + host;\n"
      "found by value, lru, device only, of what a cache without end finds; tokens that lru computes again;\n"
      "value / lru in tokens (cost), by exponent of age 1, 1.5, 2\n",
      equal_tokens, kPageSize);
  const RecomputeCost cost = cost_of_pages(equal_tokens);
  if (chat_seconds > 0) replay_chats(cost, chat_seconds);
  if (trace_seconds > 0) replay_mooncake(trace_file, cost, trace_seconds);
  return 0;
}
