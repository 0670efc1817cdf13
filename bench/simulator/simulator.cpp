// SPDX-License-Identifier: Apache-2.0
// Simulated seconds against real ones: 1,000 workers and 1,000,000 requests
// with lengths like those of the Azure conversation trace (log-normal, mean
// 1155 tokens in, 211 out) on one core. Goal: 30 s.
// Usage: bench_simulator [workers] [requests] [load, a share of what the workers can do]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/workload_settings.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

// About a Llama of 8 billion parameters on one large GPU.
CostProfile gpu_profile() {
  CostProfile profile;
  profile.model = "8 B";
  profile.serving.limits = {.context_length = 8192, .page_capacity = 4096 * 32, .vocabulary_size = 128'000};
  profile.serving.settings = {.itl_factor = 0,
                              .max_waiting = 1'000'000,
                              .max_queue_time = std::chrono::hours(1),
                              .cache_policy = EvictionPolicy::kNone,
                              .keep_free = 0};
  profile.serving.page_size = 32;
  profile.serving.num_pages = 4096;
  profile.iteration.fixed = 8e6;
  profile.iteration.knots = {1, 64};
  profile.iteration.slopes = {1e4, 3e4};
  profile.iteration.per_decode_key = 30;
  profile.iteration.per_prefill_pair = 2;
  return profile;
}

DistributionSettings log_normal(double mean, double stddev, double max) {
  DistributionSettings lengths;
  lengths.kind = DistributionSettings::Kind::kLogNormal;
  lengths.mean = mean;
  lengths.stddev = stddev;
  lengths.min = 1;
  lengths.max = max;
  return lengths;
}

WorkloadSettings azure_like(double rate, std::uint64_t num_requests) {
  WorkloadSettings workload;
  workload.arrivals.rate = rate;
  workload.max_conversations = num_requests;
  auto& lengths = workload.classes.front();
  lengths.request_class.ignore_eos = true;
  lengths.prompt_tokens = log_normal(1155, 1100, 7000);
  lengths.output_tokens = log_normal(211, 160, 1000);
  return workload;
}

// Requests a second of a worker whose batch is full all the time.
double capacity(const CostProfile& profile) {
  SimulationSettings settings{.records_gaps = false, .sample_interval = {}};
  auto workload = azure_like(1, 2000);
  workload.arrivals.kind = ArrivalSettings::Kind::kAtOnce;
  const auto source = make_source(workload, 1);
  const auto simulation = simulate(profile, *source, request_classes(workload), settings);
  return 2000 / std::chrono::duration<double>(simulation.result.duration).count();
}

}  // namespace

int main(int argc, char** argv) {
  const auto num_workers = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 1000);
  const auto num_requests = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1'000'000);
  const double load = argc > 3 ? std::atof(argv[3]) : 0.7;
  const CostProfile profile = gpu_profile();
  const double rate = load * capacity(profile) * num_workers;
  const auto workload = azure_like(rate, num_requests);
  const auto source = make_source(workload, 1);

  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const auto simulation = simulate(profile, *source, request_classes(workload),
                                   {.num_workers = num_workers, .records_gaps = false});
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto& totals = simulation.totals;
  std::printf("%u workers, %zu requests at %.0f a second (%.0f %% load), %.0f s of virtual time\n",
              num_workers, simulation.result.records.size(), rate, load * 100,
              std::chrono::duration<double>(simulation.result.duration).count());
  std::printf("%llu events, %llu batches of %.1f tokens, %llu tokens drawn\n",
              static_cast<unsigned long long>(simulation.num_events),
              static_cast<unsigned long long>(totals.num_batches),
              static_cast<double>(totals.batch_tokens) / static_cast<double>(totals.num_batches),
              static_cast<unsigned long long>(totals.output_tokens));
  std::printf(
      "%.1f s of processor time, %.1f s of wall time (goal: 30 s for 1,000 workers "
      "and 1,000,000 requests)\n",
      cpu, wall);
  return 0;
}
