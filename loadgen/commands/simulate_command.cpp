// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/simulate_command.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "loadgen/capacity_search.hpp"
#include "loadgen/capacity_table.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/commands/workload_flags.hpp"
#include "loadgen/cost_profile_file.hpp"
#include "loadgen/result_file.hpp"
#include "loadgen/simulation_plan.hpp"
#include "loadgen/summary.hpp"

namespace troupe::loadgen {
namespace {

struct SimulateFlags {
  std::string profile, replay, out, name, dispatch = "shortest-queue";
  WorkloadFlags workload;
  std::uint32_t workers = 1;
  std::uint64_t seed = 1;
  double warmup = 0, cooldown = 0;
  bool skips_gaps = false;
  // Of the server, where it is not as profiled.
  std::optional<std::uint32_t> max_batch_sequences, max_batch_tokens, prefill_chunk, max_in_flight, num_pages,
      max_waiting, max_queue_ms;
  std::optional<bool> prefix_cache, separates_prefill;
  // --find-workers
  bool finds_workers = false;
  std::string objective;
  std::vector<double> rates;
  std::uint32_t max_workers = 1024;
  std::uint32_t seeds = 3;
};

void add_flags(CLI::App& app, SimulateFlags& flags) {
  app.add_option("--profile", flags.profile, "costs, as `troupe profile` measured them")->required();
  add_workload_flags(app, flags.workload);
  app.add_option("--replay", flags.replay,
                 "instead of a workload: the directory of a live run, "
                 "whose requests are simulated with the lengths they had");
  app.add_option("--workers", flags.workers, "simulated servers")->default_str("1");
  app.add_option("--dispatch", flags.dispatch,
                 "who gets a request: round-robin, least-work, shortest-queue, power-of-two")
      ->default_str("shortest-queue");
  app.add_option("--seed", flags.seed, "of the plan and of dispatch")->default_str("1");
  app.add_option("--warmup", flags.warmup, "seconds at the begin that are not measured")->default_str("0");
  app.add_option("--cooldown", flags.cooldown, "seconds at the end that are not measured")->default_str("0");
  app.add_flag("--no-gaps", flags.skips_gaps, "don't keep the time of each token (4 bytes each)");
  app.add_option("--name", flags.name, "of the run (default: made of workload, rate and seed)");
  app.add_option("--out", flags.out, "directory for results.json and requests.jsonl");

  const std::string server = "The server, where it is not as profiled";
  app.add_option("--max-batch-sequences", flags.max_batch_sequences, "sequences that run at once")
      ->group(server);
  app.add_option("--max-batch-tokens", flags.max_batch_tokens, "token budget of a batch")->group(server);
  app.add_option("--prefill-chunk", flags.prefill_chunk, "most prompt tokens of a sequence in a batch")
      ->group(server);
  app.add_option("--separate-prefill", flags.separates_prefill,
                 "prompts in batches of their own: true or false")
      ->group(server);
  app.add_option("--max-in-flight", flags.max_in_flight, "batches handed to the device ahead")->group(server);
  app.add_option("--num-pages", flags.num_pages, "KV pages")->group(server);
  app.add_option("--max-waiting", flags.max_waiting, "longest queue; beyond it 429")->group(server);
  app.add_option("--max-queue-ms", flags.max_queue_ms, "longest wait in the queue; beyond it 429")
      ->group(server);
  app.add_option("--keep-prefixes", flags.prefix_cache,
                 "keep KV for requests with equal beginnings: true or false")
      ->group(server);

  const std::string capacity = "How many workers";
  app.add_flag("--find-workers", flags.finds_workers,
               "for each rate: the fewest workers that keep the objective")
      ->group(capacity);
  app.add_option("--objective", flags.objective, "such as ttft_p99=500ms,tpot_p99=50ms")->group(capacity);
  app.add_option("--rates", flags.rates, "conversations a second, with commas (default: the workload's)")
      ->delimiter(',')
      ->group(capacity);
  app.add_option("--max-workers", flags.max_workers, "not more than that")
      ->default_str("1024")
      ->group(capacity);
  app.add_option("--seeds", flags.seeds, "so many plans a rate; the median counts")
      ->default_str("3")
      ->group(capacity);
}

template <class Value, class Flag>
void override_with(Value& value, const std::optional<Flag>& flag) {
  if (flag) value = Value(*flag);
}

void apply_server(const SimulateFlags& flags, ServingSettings& serving) {
  override_with(serving.batch.max_sequences, flags.max_batch_sequences);
  override_with(serving.batch.max_tokens, flags.max_batch_tokens);
  override_with(serving.batch.prefill_chunk, flags.prefill_chunk);
  override_with(serving.batch.separates_prefill, flags.separates_prefill);
  override_with(serving.max_in_flight, flags.max_in_flight);
  override_with(serving.max_waiting, flags.max_waiting);
  override_with(serving.max_queue_time, flags.max_queue_ms);
  override_with(serving.prefix_cache, flags.prefix_cache);
  if (!flags.num_pages) return;
  serving.num_pages = *flags.num_pages;
  serving.limits.page_capacity = serving.num_pages * serving.pages.page_size;
}

SimulationPlan plan_of(const SimulateFlags& flags) {
  SimulationPlan plan;
  plan.profile = read_cost_profile(flags.profile);
  plan.profile_file = flags.profile;
  apply_server(flags, plan.profile.serving);
  plan.replayed = flags.replay;
  if (flags.replay.empty()) plan.workload = workload_of(flags.workload);
  plan.num_workers = flags.workers;
  plan.dispatch = dispatch_from_name(flags.dispatch);
  plan.seed = flags.seed;
  plan.warmup_s = flags.warmup;
  plan.cooldown_s = flags.cooldown;
  plan.records_gaps = !flags.skips_gaps;
  plan.name = flags.name;
  return plan;
}

int simulate_once(const SimulateFlags& flags) {
  const auto plan = plan_of(flags);
  const auto begin = std::chrono::steady_clock::now();
  const auto simulation = run_simulation(plan);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto summary = summarize(simulation.result);
  if (!flags.out.empty()) write_result(flags.out, simulation.result, summary);
  print_summary(std::cout, simulation.result, summary);
  std::fprintf(stderr, "simulated %.1f s in %.2f s: %llu events, %llu batches, %llu preemptions\n",
               std::chrono::duration<double>(simulation.result.duration).count(), took.count(),
               static_cast<unsigned long long>(simulation.num_events),
               static_cast<unsigned long long>(simulation.totals.num_batches),
               static_cast<unsigned long long>(simulation.totals.num_preemptions));
  return kSuccess;
}

CapacityTrial try_workers(SimulationPlan plan, std::uint32_t num_workers, std::uint32_t num_seeds,
                          const std::vector<PercentileObjective>& objectives) {
  plan.num_workers = num_workers;
  std::vector<Summary> by_seed;
  for (std::uint32_t i = 0; i < num_seeds; ++i, ++plan.seed)
    by_seed.push_back(summarize(run_simulation(plan).result));
  return judge(num_workers, objectives, by_seed);
}

int find_workers(const SimulateFlags& flags) {
  if (!flags.replay.empty()) throw std::runtime_error("--find-workers and --replay exclude each other");
  const auto objectives = parse_objectives(flags.objective);
  auto plan = plan_of(flags);
  plan.samples = false;
  plan.records_gaps = std::any_of(objectives.begin(), objectives.end(), [](const auto& objective) {
    return objective.latency == PercentileObjective::Latency::kItl;
  });
  auto rates = flags.rates;
  if (rates.empty()) rates.push_back(mean_rate(plan.workload.arrivals));
  CapacityTable table(objectives);
  table.print_head(std::cout);
  bool is_always_met = true;
  CapacityAnswer answer;
  for (const double rate : rates) {
    set_mean_rate(plan.workload.arrivals, rate);
    answer = find_fewest_workers(
        [&](std::uint32_t n) { return try_workers(plan, n, flags.seeds, objectives); }, flags.max_workers);
    table.print_row(std::cout, rate, answer);
    is_always_met = is_always_met && answer.fewest.has_value();
  }
  table.print_foot(std::cout, answer);
  return is_always_met ? kSuccess : kTooManyErrors;
}

}  // namespace

int simulate_command(const std::vector<std::string>& arguments) {
  SimulateFlags flags;
  CLI::App app("A run on simulated workers, in virtual time", "troupe-loadgen simulate");
  add_flags(app, flags);
  if (const auto status = parse_flags(app, arguments)) return *status;
  if (flags.finds_workers != !flags.objective.empty())
    throw std::runtime_error("--find-workers and --objective need each other");
  return flags.finds_workers ? find_workers(flags) : simulate_once(flags);
}

}  // namespace troupe::loadgen
