// SPDX-License-Identifier: Apache-2.0
// S3's table: tokens a second, mean batch and preemptions by what is set aside for
// answers, at equal memory, all requests there at once. A device by arithmetic: a
// LLaMA of 13 B on an A100 (26 GB of weights and 0.82 MB of KV a token, read at
// 1.4 TB/s; 26 GFLOP a token at 150 TFLOP/s; 40 GB for KV). Three applications, each with a
// system prompt of its own, ask for up to 2,048 tokens; their answers are as long as
// answers of Azure's chats, as LMSYS's, and as those of questions answered in a word.
// Goals: predicted at least 1.3 times max and 0.9 of oracle.
// Usage: bench_reservations [seeds] [requests a seed] [share of the 40 GB]
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/workload_settings.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

constexpr std::uint32_t kPageSize = 32, kMaxTokens = 2048;

CostProfile llama_13b(double share) {
  CostProfile profile;
  profile.serving.page_size = kPageSize;
  profile.serving.num_pages = static_cast<std::uint32_t>(share * 40e9 / (0.82e6 * kPageSize));
  profile.serving.num_host_pages = profile.serving.num_pages;
  profile.serving.limits = {
      .context_length = 8192, .page_capacity = profile.serving.num_pages * kPageSize, .vocabulary_size = 100};
  profile.serving.load_from_host = {.fixed = 1e4, .per_page = 0.82e6 * kPageSize / 24.0};  // 24 GB/s
  profile.serving.recompute_cost.constant = 0.18e6;                                        // 26 / 150 ms
  profile.serving.settings.max_batch_tokens = 2048;
  profile.serving.settings.prefill_chunk = 512;
  profile.serving.settings.max_batch_sequences = 1024;
  profile.serving.settings.max_waiting = 1U << 30U;
  profile.serving.settings.max_queue_time = std::chrono::hours(1000);
  profile.serving.settings.itl_factor = 0;
  profile.iteration = {.fixed = 18.6e6, .knots = {1}, .slopes = {0.18e6}, .per_decode_key = 0.82e6 / 1400};
  return profile;
}

ClassSettings application(std::string name, DistributionSettings answers) {
  ClassSettings settings;
  settings.request_class.ignore_eos = true;
  settings.request_class.asked_tokens = kMaxTokens;
  settings.request_class.name = std::move(name);
  settings.prompt_tokens = uniform(20, 400);
  settings.output_tokens = std::move(answers);
  settings.prefix = {.count = 1, .tokens = 96, .zipf_exponent = 0};
  return settings;
}

DistributionSettings measured(const std::string& file, const std::string& key) {
  DistributionSettings settings;
  settings.kind = DistributionSettings::Kind::kQuantiles;
  settings.file = TROUPE_SOURCE_DIR "/configs/workloads/" + file;
  settings.key = key;
  settings.min = 1;
  settings.max = kMaxTokens - 1;
  return settings;
}

WorkloadSettings three_applications(std::uint64_t num_requests) {
  WorkloadSettings workload;
  workload.arrivals.kind = ArrivalSettings::Kind::kAtOnce;
  workload.max_conversations = num_requests;
  workload.classes = {application("azure", measured("azure-conversation.json", "output_tokens")),
                      application("chat", measured("chat-lengths.json", "answer_tokens")),
                      application("words", uniform(1, 24))};
  return workload;
}

struct Measured {
  double tokens_a_second = 0, mean_batch = 0, preemptions = 0;  // a request
};

Measured play(const CostProfile& profile, const WorkloadSettings& workload, std::uint64_t seed) {
  const auto source = make_source(workload, seed);
  std::vector<RequestClass> classes;
  for (const ClassSettings& one : workload.classes) classes.push_back(one.request_class);
  const SimulationSettings settings{.seed = seed, .records_gaps = false, .sample_interval = {}};
  const Simulation simulation = simulate(profile, *source, classes, settings);
  const auto& totals = simulation.totals;
  const double seconds = std::chrono::duration<double>(simulation.result.duration).count();
  return {.tokens_a_second = static_cast<double>(totals.output_tokens) / seconds,
          .mean_batch = static_cast<double>(totals.output_tokens) / static_cast<double>(totals.num_batches),
          .preemptions =
              static_cast<double>(totals.num_preemptions) / static_cast<double>(workload.max_conversations)};
}

// Student's t at 95 % for up to so many seeds less one.
double t_of(std::size_t num_seeds) {
  constexpr std::array<double, 10> kT{0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};
  return num_seeds - 1 < kT.size() ? kT[num_seeds - 1] : 1.96;
}

void print_interval(const std::vector<double>& values, const char* format) {
  double mean = 0, squares = 0;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = values.size() < 2 ? 0 : t_of(values.size()) * std::sqrt(squares / (count - 1) / count);
  std::printf(format, mean, error);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index, double otherwise) {
    return argc > index ? std::atof(argv[index]) : otherwise;
  };
  const auto num_seeds = static_cast<std::uint64_t>(number(1, 5));
  const auto num_requests = static_cast<std::uint64_t>(number(2, 3000));
  CostProfile profile = llama_13b(number(3, 1));
  std::printf("%u pages of %u tokens, %llu requests, %llu seeds, mean ± 95 %%\n", profile.serving.num_pages,
              kPageSize, static_cast<unsigned long long>(num_requests),
              static_cast<unsigned long long>(num_seeds));
  std::printf("%-12s %18s %16s %24s %16s %16s\n", "reservation", "tokens/s", "mean batch",
              "preemptions a request", "over max", "of oracle");
  const WorkloadSettings workload = three_applications(num_requests);
  const std::array<std::pair<const char*, ReservationPolicy>, 5> policies{
      {{"max", ReservationPolicy::kMax},
       {"oracle", ReservationPolicy::kOracle},
       {"on_demand", ReservationPolicy::kOnDemand},
       {"history", ReservationPolicy::kHistory},
       {"predicted", ReservationPolicy::kPredicted}}};
  std::vector<std::vector<Measured>> runs;
  for (const auto& [name, policy] : policies) {
    profile.serving.settings.reservation = policy;
    auto& own = runs.emplace_back();
    std::vector<double> speeds, batches, preemptions, over_max, of_oracle;
    for (std::uint64_t seed = 1; seed <= num_seeds; ++seed) {
      own.push_back(play(profile, workload, seed));
      const Measured& run = own.back();
      speeds.push_back(run.tokens_a_second);
      batches.push_back(run.mean_batch);
      preemptions.push_back(run.preemptions);
      over_max.push_back(run.tokens_a_second / runs.front()[seed - 1].tokens_a_second);
      if (runs.size() > 1) of_oracle.push_back(run.tokens_a_second / runs[1][seed - 1].tokens_a_second);
    }
    std::printf("%-12s", name);
    print_interval(speeds, " %10.1f ± %5.1f");
    print_interval(batches, " %8.1f ± %5.1f");
    print_interval(preemptions, " %15.3f ± %6.3f");
    print_interval(over_max, " %7.3f ± %6.3f");
    if (!of_oracle.empty()) print_interval(of_oracle, " %7.3f ± %6.3f");
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
