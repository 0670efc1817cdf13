// SPDX-License-Identifier: Apache-2.0
// S3's table: tokens a second, mean batch and preemptions by what is set aside for
// answers, at equal memory, all requests there at once. A device by arithmetic: a
// LLaMA of 13 B on an A100 (26 GB of weights and 0.82 MB of KV a token, read at
// 1.4 TB/s; 26 GFLOP a token at 150 TFLOP/s; 40 GB for KV). Three applications, each with a
// system prompt of its own, ask for up to 2,048 tokens; their answers are as long as
// answers of Azure's chats, as LMSYS's, and as those of questions answered in a word.
// The rows with a percentage set that share aside, the others by what too little and too much cost. What
// preemptions cost is told by the same with copies that take no time. The rows with a strength have devices
// that hand out states, which tell lengths so strongly (loadgen/simulator/simulated_states.hpp); 0: noise.
// With "prompts read" an encoder's vectors do, while requests wait.
//
// Goals: predicted at least 1.3 times max and 0.9 of oracle; the mean latency of the shortest first at most
// 0.7 of that in order of arrival.
//
// Usage: bench_reservations [seeds] [requests a seed] [share of the 40 GB]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
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
  double mean_latency = 0, p99_latency = 0;                     // seconds
  double quantile = 0;                                          // set aside in the end
};

// How much simulated states and vectors tell of lengths; nullopt: devices hand out no states, no encoder
// reads prompts.
struct Strengths {
  std::optional<double> states = {}, vectors = {};
};

Measured play(const CostProfile& profile, const WorkloadSettings& workload, std::uint64_t seed,
              const Strengths& strengths) {
  const auto source = make_source(workload, seed);
  std::vector<RequestClass> classes;
  for (const ClassSettings& one : workload.classes) classes.push_back(one.request_class);
  const SimulationSettings settings{.seed = seed,
                                    .records_gaps = false,
                                    .state_strength = strengths.states,
                                    .encoder_strength = strengths.vectors,
                                    .sample_interval = {}};
  const Simulation simulation = simulate(profile, *source, classes, settings);
  const auto& totals = simulation.totals;
  const auto num_requests = static_cast<double>(workload.max_conversations);
  std::vector<double> latencies;
  for (const RequestRecord& record : simulation.result.records)
    latencies.push_back(std::chrono::duration<double>(record.finished - record.intended).count());
  std::sort(latencies.begin(), latencies.end());
  const double seconds = std::chrono::duration<double>(simulation.result.duration).count();
  return {.tokens_a_second = static_cast<double>(totals.output_tokens) / seconds,
          .mean_batch = static_cast<double>(totals.output_tokens) / static_cast<double>(totals.num_batches),
          .preemptions = static_cast<double>(totals.num_preemptions) / num_requests,
          .mean_latency = std::accumulate(latencies.begin(), latencies.end(), 0.0) / num_requests,
          .p99_latency = latencies[latencies.size() * 99 / 100],
          .quantile = simulation.predictors.empty() ? 0 : simulation.predictors.front().quantile()};
}

// Student's t at 95 % of so many seeds.
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

// What is compared, by seed.
using Runs = std::vector<Measured>;

std::vector<double> each(const Runs& runs, double Measured::*member) {
  std::vector<double> values;
  for (const Measured& run : runs) values.push_back(run.*member);
  return values;
}

std::vector<double> over(const Runs& runs, const Runs& base, double Measured::*member) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < runs.size(); ++i) ratios.push_back(runs[i].*member / (base[i].*member));
  return ratios;
}

class Table {
 public:
  Table(CostProfile profile, std::uint64_t num_seeds, std::uint64_t num_requests)
      : profile_(std::move(profile)), num_seeds_(num_seeds), workload_(three_applications(num_requests)) {}

  Runs run(ReservationPolicy reservation, AdmissionOrder order, const Strengths& strengths = {}) {
    profile_.serving.settings.reservation = reservation;
    profile_.serving.settings.admission_order = order;
    Runs runs;
    for (std::uint64_t seed = 1; seed <= num_seeds_; ++seed)
      runs.push_back(play(profile_, workload_, seed, strengths));
    return runs;
  }

  Runs run_at(double quantile) {
    profile_.serving.settings.reserved_quantile = quantile;
    Runs runs = run(ReservationPolicy::kPredicted, AdmissionOrder::kArrival);
    profile_.serving.settings.reserved_quantile = 0;
    return runs;
  }

  Runs run_with_free_copies() {
    const LoadCost cost = std::exchange(profile_.serving.load_from_host, {});
    Runs runs = run(ReservationPolicy::kPredicted, AdmissionOrder::kArrival);
    profile_.serving.load_from_host = cost;
    return runs;
  }

  void print_reservations() {
    using enum ReservationPolicy;
    std::printf("%-17s %18s %16s %24s %16s %16s\n", "reservation", "tokens/s", "mean batch",
                "preemptions a request", "over max", "of oracle");
    const Runs most = run(kMax, AdmissionOrder::kArrival), oracle = run(kOracle, AdmissionOrder::kArrival);
    const auto print = [&](const char* name, const Runs& runs) {
      std::printf("%-17s", name);
      print_interval(each(runs, &Measured::tokens_a_second), " %10.1f ± %5.1f");
      print_interval(each(runs, &Measured::mean_batch), " %8.1f ± %5.1f");
      print_interval(each(runs, &Measured::preemptions), " %15.3f ± %6.3f");
      print_interval(over(runs, most, &Measured::tokens_a_second), " %7.3f ± %6.3f");
      print_interval(over(runs, oracle, &Measured::tokens_a_second), " %7.3f ± %6.3f\n");
    };
    print("max", most);
    print("on_demand", run(kOnDemand, AdmissionOrder::kArrival));
    print("history", run(kHistory, AdmissionOrder::kArrival));
    const Runs predicted = run(kPredicted, AdmissionOrder::kArrival);
    print("predicted", predicted);
    print("predicted, 60 %", run_at(0.6));
    print("predicted, 90 %", run_at(0.9));
    print("predicted, 0", run(kPredicted, AdmissionOrder::kArrival, {.states = 0.0}));
    print("predicted, 0.7", run(kPredicted, AdmissionOrder::kArrival, {.states = 0.7}));
    print("predicted, 0.9", run(kPredicted, AdmissionOrder::kArrival, {.states = 0.9}));
    print("prompts read, 0", run(kPredicted, AdmissionOrder::kArrival, {.vectors = 0.0}));
    print("prompts read, 0.7", run(kPredicted, AdmissionOrder::kArrival, {.vectors = 0.7}));
    print("oracle", oracle);
    print_interval(each(predicted, &Measured::quantile),
                   "predicted: a quantile of %.2f ± %.2f is set aside; ");
    print_interval(over(predicted, run_with_free_copies(), &Measured::tokens_a_second),
                   "tokens/s over those with free copies %.3f ± %.3f\n");
  }

  void print_orders() {
    constexpr auto kReservation = ReservationPolicy::kPredicted;
    std::printf("%-21s %18s %28s %28s\n", "order, predicted", "tokens/s", "mean latency over arrival",
                "p99 latency over arrival");
    const Runs arrival = run(kReservation, AdmissionOrder::kArrival);
    const auto print = [&](const char* name, const Runs& runs) {
      std::printf("%-21s", name);
      print_interval(each(runs, &Measured::tokens_a_second), " %10.1f ± %5.1f");
      print_interval(over(runs, arrival, &Measured::mean_latency), " %19.3f ± %6.3f");
      print_interval(over(runs, arrival, &Measured::p99_latency), " %19.3f ± %6.3f\n");
    };
    print("arrival", arrival);
    print("longest_first", run(kReservation, AdmissionOrder::kLongestFirst));
    print("shortest_first", run(kReservation, AdmissionOrder::kShortestFirst));
    print("so, states 0.9", run(kReservation, AdmissionOrder::kShortestFirst, {.states = 0.9}));
    print("so, prompts read, 0", run(kReservation, AdmissionOrder::kShortestFirst, {.vectors = 0.0}));
    print("so, prompts read, 0.7", run(kReservation, AdmissionOrder::kShortestFirst, {.vectors = 0.7}));
    print("so, prompts read, 0.9", run(kReservation, AdmissionOrder::kShortestFirst, {.vectors = 0.9}));
  }

 private:
  CostProfile profile_;
  std::uint64_t num_seeds_;
  WorkloadSettings workload_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index, double otherwise) {
    return argc > index ? std::atof(argv[index]) : otherwise;
  };
  const auto num_seeds = static_cast<std::uint64_t>(number(1, 5));
  const auto num_requests = static_cast<std::uint64_t>(number(2, 3000));
  const CostProfile profile = llama_13b(number(3, 0.25));
  std::printf("%u pages of %u tokens, %llu requests, %llu seeds, mean ± 95 %%\n", profile.serving.num_pages,
              kPageSize, static_cast<unsigned long long>(num_requests),
              static_cast<unsigned long long>(num_seeds));
  Table table(profile, num_seeds, num_requests);
  table.print_reservations();
  table.print_orders();
  return 0;
}
