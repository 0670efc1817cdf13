// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/commands/workload_flags.hpp"
#include "loadgen/experiment/serving_flags.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/result/summary.hpp"
#include "loadgen/simulator/capacity_search.hpp"
#include "loadgen/simulator/capacity_table.hpp"
#include "loadgen/simulator/cost_profile_file.hpp"
#include "loadgen/simulator/other_hardware.hpp"
#include "loadgen/simulator/simulation_plan.hpp"
#include "loadgen/workload/distribution.hpp"

namespace troupe::loadgen {
namespace {

struct SimulateFlags {
  std::string replay, out, name, dispatch = "shortest-queue";
  std::vector<std::string> profiles;
  WorkloadFlags workload;
  std::vector<std::uint32_t> workers;  // of each profile
  std::uint64_t seed = 1;
  double warmup = 0, cooldown = 0;
  bool skips_gaps = false;
  // Of the server, where it is not as profiled.
  std::vector<std::pair<const Setting<ServingSettings>*, std::string>> settings;
  std::optional<std::uint32_t> num_pages, num_host_pages, num_disk_pages, max_queue_ms;
  std::optional<double> page_copy_us, disk_page_us;
  std::optional<bool> keeps_prefixes;
  double mean_time_to_loss = 0, restart_time = 10;
  std::optional<double> state_strength, encoder_strength;
  std::string measured_on, what_if;
  std::uint32_t devices = 1;
  // --find-workers
  bool finds_workers = false;
  std::string objective;
  std::vector<double> rates;
  std::uint32_t max_workers = 1024;
  std::uint32_t seeds = 3;
};

void add_run_flags(CLI::App& app, SimulateFlags& flags) {
  app.add_option("--profile", flags.profiles,
                 "costs, as `troupe profile` measured them; several are several kinds of workers")
      ->required();
  add_workload_flags(app, flags.workload);
  app.add_option("--replay", flags.replay,
                 "instead of a workload: the directory of a live run, "
                 "whose requests are simulated with the lengths they had");
  app.add_option("--workers", flags.workers, "simulated workers, once for each --profile")->default_str("1");
  app.add_option(
         "--dispatch", flags.dispatch,
         "who gets a request: round-robin, least-work, shortest-queue, power-of-two among servers of "
         "one worker each; affinity: the workers of one server, the one that has most of its beginning")
      ->default_str("shortest-queue");
  app.add_option("--seed", flags.seed, "of the plan, of dispatch, residuals and losses")->default_str("1");
  app.add_option("--mean-time-to-loss", flags.mean_time_to_loss,
                 "seconds after which a worker dies, on average (0: never)")
      ->check(CLI::NonNegativeNumber)
      ->default_str("0");
  app.add_option("--restart-time", flags.restart_time, "seconds until it is back, empty")
      ->check(CLI::NonNegativeNumber)
      ->default_str("10");
  app.add_option(
         "--state-strength", flags.state_strength,
         "devices hand out states, which tell how long answers will be: from 0, as noise, to 1, exactly "
         "(default: they hand out none)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--encoder-strength", flags.encoder_strength,
                 "so, too, the vectors of an encoder that reads prompts while they wait (default: none does)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--warmup", flags.warmup, "seconds at the begin that are not measured")->default_str("0");
  app.add_option("--cooldown", flags.cooldown, "seconds at the end that are not measured")->default_str("0");
  app.add_flag("--no-gaps", flags.skips_gaps, "don't keep the time of each token (4 bytes each)");
  app.add_option("--name", flags.name, "of the run (default: made of workload, rate and seed)");
  app.add_option("--out", flags.out, "directory for results.json and requests.jsonl");
}

void add_server_flags(CLI::App& app, SimulateFlags& flags) {
  const std::string server = "The server, where it is not as profiled";
  for (const auto& setting : serving_table())
    app.add_option_function<std::string>(
           std::string(setting.flag),
           [&flags, &setting](const std::string& text) { flags.settings.emplace_back(&setting, text); },
           std::string(setting.help))
        ->group(server);
  app.add_option("--num-pages", flags.num_pages, "KV pages")->group(server);
  app.add_option("--num-host-pages", flags.num_host_pages, "KV pages of the host tier")->group(server);
  app.add_option(
         "--page-copy-us", flags.page_copy_us,
         "microseconds to copy a KV page between host and device: its bytes over the link's bandwidth")
      ->check(CLI::NonNegativeNumber)
      ->group(server);
  app.add_option("--num-disk-pages", flags.num_disk_pages, "KV pages of the disk tier, behind the host's")
      ->group(server);
  app.add_option(
         "--disk-page-us", flags.disk_page_us,
         "microseconds to write a KV page to the disk, or to read it: its bytes over the disk's bandwidth")
      ->check(CLI::NonNegativeNumber)
      ->group(server);
  app.add_option("--max-queue-ms", flags.max_queue_ms, "longest wait in the queue; beyond it 429")
      ->group(server);
  app.add_option("--keep-prefixes", flags.keeps_prefixes,
                 "keep KV for requests with equal beginnings: true or false")
      ->group(server);
}

void add_hardware_flags(CLI::App& app, SimulateFlags& flags) {
  const std::string other = "Other hardware, by its data sheet";
  app.add_option("--measured-on", flags.measured_on, "the profile's device: a100, h100, h200 or l40s")
      ->group(other);
  app.add_option("--what-if", flags.what_if,
                 "the device to be simulated, one of these; prints what is assumed")
      ->group(other);
  app.add_option("--devices", flags.devices, "so many that share each batch")
      ->check(CLI::Range(1, 64))
      ->default_str("1")
      ->group(other);
}

void add_capacity_flags(CLI::App& app, SimulateFlags& flags) {
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

void add_flags(CLI::App& app, SimulateFlags& flags) {
  add_run_flags(app, flags);
  add_server_flags(app, flags);
  add_hardware_flags(app, flags);
  add_capacity_flags(app, flags);
}

void apply_server(const SimulateFlags& flags, ProfiledServer& server) {
  ServingSettings& settings = server.settings;
  for (const auto& [setting, text] : flags.settings) set_serving_flag(*setting, text, settings);
  if (flags.max_queue_ms) settings.max_queue_time = std::chrono::milliseconds(*flags.max_queue_ms);
  if (flags.keeps_prefixes && *flags.keeps_prefixes != settings.keeps_prefixes())
    settings.cache_policy = *flags.keeps_prefixes ? EvictionPolicy::kValue : EvictionPolicy::kNone;
  if (flags.num_host_pages) server.num_host_pages = *flags.num_host_pages;
  if (flags.num_disk_pages) server.num_disk_pages = *flags.num_disk_pages;
  if (server.num_disk_pages > 0 && server.num_host_pages == 0)
    throw std::runtime_error("--num-disk-pages: expected a host tier, through which pages go, got none");
  if (flags.disk_page_us) server.disk.per_page = *flags.disk_page_us * 1000;
  if (flags.page_copy_us) {
    // recompute_cost is in nanoseconds only where loads were measured: see RestoreCosts.
    if (server.load_from_host == LoadCost{})
      throw std::runtime_error(
          "--page-copy-us: expected a profile with measured loads (load_from_host_ns), whose time for a "
          "computation copies are weighed against");
    server.load_from_host.per_page = *flags.page_copy_us * 1000;
  }
  if (!flags.num_pages) return;
  server.num_pages = *flags.num_pages;
  server.limits.page_capacity = server.num_pages * server.page_size;
}

void move_to_other_hardware(const SimulateFlags& flags, CostProfile& profile) {
  if (flags.measured_on.empty() != flags.what_if.empty())
    throw std::runtime_error("--measured-on and --what-if need each other");
  if (flags.what_if.empty() && flags.devices > 1)
    throw std::runtime_error("--devices: expected --measured-on and --what-if beside it");
  if (flags.what_if.empty()) return;
  auto other = on_other_hardware(std::move(profile), hardware_from_name(flags.measured_on),
                                 hardware_from_name(flags.what_if), flags.devices);
  profile = std::move(other.profile);
  for (const auto& assumption : other.assumptions) std::fprintf(stderr, "assumed: %s\n", assumption.c_str());
}

std::vector<WorkerKind> kinds_of(const SimulateFlags& flags) {
  if (!flags.workers.empty() && flags.workers.size() != flags.profiles.size())
    throw std::runtime_error("--workers: expected a number for each of " +
                             std::to_string(flags.profiles.size()) + " profiles, got " +
                             std::to_string(flags.workers.size()));
  std::vector<WorkerKind> kinds;
  for (std::size_t i = 0; i < flags.profiles.size(); ++i) {
    kinds.push_back({.profile = read_cost_profile(flags.profiles[i]),
                     .count = flags.workers.empty() ? 1 : flags.workers[i]});
    // First, as flags of the server are of the hardware that is simulated.
    move_to_other_hardware(flags, kinds.back().profile);
    apply_server(flags, kinds.back().profile.serving);
  }
  return kinds;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

SimulationPlan plan_of(const SimulateFlags& flags) {
  SimulationPlan plan;
  plan.kinds = kinds_of(flags);
  plan.profile_file = listed(flags.profiles);
  plan.replayed = flags.replay;
  if (flags.replay.empty()) plan.workload = workload_of(flags.workload);
  plan.dispatch =
      flags.dispatch == kAffinity ? std::nullopt : std::optional(dispatch_from_name(flags.dispatch));
  plan.losses = {.mean_time = seconds_to_nanoseconds(flags.mean_time_to_loss),
                 .restart_time = seconds_to_nanoseconds(flags.restart_time)};
  plan.seed = flags.seed;
  plan.warmup_s = flags.warmup;
  plan.cooldown_s = flags.cooldown;
  plan.records_gaps = !flags.skips_gaps;
  plan.state_strength = flags.state_strength;
  plan.encoder_strength = flags.encoder_strength;
  plan.name = flags.name;
  return plan;
}

// How well lengths were foreseen, a line a server.
void print_predictors(const std::vector<LengthPredictor>& predictors) {
  for (const LengthPredictor& predictor : predictors) {
    const ForecastAccuracy& accuracy = predictor.accuracy();
    const JudgedLooks& looks = accuracy.looks();
    std::fprintf(stderr,
                 "lengths: by %s, mean pinball loss %.1f tokens, of the best constant %.1f; "
                 "%u looks at answers that ran, %s, loss %.1f, without them %.1f\n",
                 kLengthStageNames.at(static_cast<std::size_t>(predictor.stage())).data(),
                 accuracy.mean_loss(predictor.stage()), accuracy.constant_loss(), looks.num,
                 predictor.uses_looks() ? "used" : "not used", looks.loss / std::max(1U, looks.num),
                 looks.standing_loss / std::max(1U, looks.num));
  }
}

int simulate_once(const SimulateFlags& flags) {
  const auto plan = plan_of(flags);
  const auto begin = std::chrono::steady_clock::now();
  const auto simulation = run_simulation(plan);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto summary = summarize(simulation.result);
  if (!flags.out.empty()) write_result(flags.out, simulation.result, summary);
  print_summary(std::cout, simulation.result, summary);
  std::fprintf(stderr,
               "simulated %.1f s in %.2f s: %llu events, %llu batches, %llu preemptions, "
               "%llu pages loaded and %llu stored, %llu read and %llu written, %llu workers lost\n",
               std::chrono::duration<double>(simulation.result.duration).count(), took.count(),
               static_cast<unsigned long long>(simulation.num_events),
               static_cast<unsigned long long>(simulation.totals.num_batches),
               static_cast<unsigned long long>(simulation.totals.num_preemptions),
               static_cast<unsigned long long>(simulation.totals.num_loads),
               static_cast<unsigned long long>(simulation.totals.num_stores),
               static_cast<unsigned long long>(simulation.totals.num_reads),
               static_cast<unsigned long long>(simulation.totals.num_writes),
               static_cast<unsigned long long>(simulation.totals.num_losses));
  print_predictors(simulation.predictors);
  return kSuccess;
}

CapacityTrial try_workers(SimulationPlan plan, std::uint32_t num_workers, std::uint32_t num_seeds,
                          const std::vector<PercentileObjective>& objectives) {
  plan.kinds.front().count = num_workers;
  std::vector<Summary> by_seed;
  for (std::uint32_t i = 0; i < num_seeds; ++i, ++plan.seed) {
    auto result = run_simulation(plan).result;
    // judge() wants all completed but those that no number of workers could serve.
    result.settings.emplace_back(kPercentilesSetting, kOfCompleted);
    by_seed.push_back(summarize(result));
  }
  return judge(num_workers, objectives, by_seed);
}

int find_workers(const SimulateFlags& flags) {
  if (!flags.replay.empty()) throw std::runtime_error("--find-workers and --replay exclude each other");
  if (flags.profiles.size() > 1)
    throw std::runtime_error("--find-workers: expected workers of one kind, got " +
                             std::to_string(flags.profiles.size()) + " profiles");
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
