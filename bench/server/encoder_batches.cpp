// SPDX-License-Identifier: Apache-2.0
// Batches of an encoder as in TurboTransformers (figures 15 and 16): texts a second without
// padding (ragged), padded by plan (dp), padded as they come (padded) and one by one (none),
// on a MiniLM's shape with random weights; lengths U(2,100) and U(5,500), batches of at most
// 20 texts as there. The server's core decides, on the device that a server has; all texts
// are there at once, arms take turns within each seed. Planning: processor time of the core's
// decisions over the time of the run.
//
// Then the same core in virtual time, with batches that take what was measured: texts a
// second, and the mean latency where texts come at random (Poisson) at 0.7 of `padded`'s rate.
// Goals: dp at least 1.2 times padded, ragged no less than dp, planning at most 2 %.
// Usage: bench_encoder_batches [texts] [seeds]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/costs/encoder_costs.hpp"
#include "app/loading/model_loading.hpp"
#include "bench/processor_time.hpp"
#include "bench/statistics.hpp"
#include "engine/encoder_core.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/model/random_model.hpp"

using namespace troupe;
using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint32_t kMostTexts = 20;  // of a batch
constexpr std::uint32_t kLongest = 500;
constexpr std::uint32_t kMostTokens = kMostTexts * kLongest;
constexpr std::uint32_t kVocabulary = 30522;
constexpr double kLoad = 0.7;

struct Arm {
  const char* name;
  EncoderBatching batching;
};
constexpr std::array<Arm, 4> kArms = {{{"ragged", EncoderBatching::kRagged},
                                       {"dp", EncoderBatching::kDp},
                                       {"padded", EncoderBatching::kPadded},
                                       {"none", EncoderBatching::kNone}}};

struct Workload {
  std::uint32_t shortest, longest;  // tokens of a text
};

struct Text {
  std::uint32_t num_tokens = 0;
  nanoseconds arrival{0};
};

std::vector<Text> draw_texts(const Workload& workload, std::uint32_t count, double rate, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::uint32_t> length(workload.shortest, workload.longest);
  std::exponential_distribution<double> gap(rate > 0 ? rate : 1);
  std::vector<Text> texts;
  double time = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (rate > 0) time += gap(random);
    texts.push_back({length(random), nanoseconds(static_cast<std::int64_t>(time * 1e9))});
  }
  return texts;
}

struct Played {
  double texts_a_second = 0;
  double planning = 0;  // share of the time
  double padding = 0;   // share of the tokens computed
  double mean_batch = 0;
  double mean_latency = 0;  // seconds
};

CoreOptions core_options(EncoderBatching batching, const EncoderCosts& costs) {
  CoreOptions options{.serving = {}, .pages = {}, .encoder_costs = costs};
  options.serving.encoder_batching = batching;
  options.serving.max_batch_tokens = kMostTokens;
  options.serving.max_batch_sequences = kMostTexts;
  options.serving.max_waiting = 1U << 30U;
  options.serving.max_queue_time = std::chrono::hours(1000);
  return options;
}

// The core, its clock and its books, over batches that something else runs.
class Play {
 public:
  Play(EncoderBatching batching, const EncoderCosts& costs, std::vector<Text> texts)
      : core_(core_options(batching, costs)), texts_(std::move(texts)) {
    hand(WorkerReady{.worker = 0,
                     .epoch = 1,
                     .description = {.name = "bench",
                                     .num_slots = kMostTexts,
                                     .max_batch_tokens = kMostTokens,
                                     .context_length = 512,
                                     .vocabulary_size = kVocabulary,
                                     .cells = {{.name = "encoder_pass",
                                                .state = StateKind::kNone,
                                                .result = ResultKind::kVector,
                                                .vector_size = 384}}}},
         nanoseconds(1));
  }

  bool has_arrival() const { return num_admitted_ < texts_.size(); }
  nanoseconds next_arrival() const { return texts_[num_admitted_].arrival; }
  void admit_next(nanoseconds now) {
    auto ticket = std::make_shared<AdmissionTicket>();
    ticket->sequence = ++num_admitted_;
    for (std::uint32_t i = 0; i < texts_[num_admitted_ - 1].num_tokens; ++i)
      ticket->prompt.push_back(static_cast<std::int32_t>((num_admitted_ * 131 + i * 7) % kVocabulary));
    hand(Admit{.ticket = std::move(ticket)}, now);
  }
  void finish(const SubmitBatch& batch, BatchResult result, nanoseconds now) {
    num_batches_ += 1;
    for (const SequenceSlice& slice : batch.batch->slices) {
      num_computed_ += slice.num_tokens;
      num_padding_ += slice.num_padding;
      latency_ += now - texts_[slice.sequence - 1].arrival;
    }
    num_done_ += batch.batch->slices.size();
    hand(BatchDone{.worker = 0, .epoch = 1, .result = std::move(result)}, now);
  }
  Played result(nanoseconds time) const {
    if (num_done_ != texts_.size()) throw std::runtime_error("texts were left without a vector");
    const double seconds = std::chrono::duration<double>(time).count();
    const auto count = static_cast<double>(num_done_);
    return {.texts_a_second = count / seconds,
            .planning = planning_ * 1e-6 / seconds,
            .padding = static_cast<double>(num_padding_) / static_cast<double>(num_computed_),
            .mean_batch = count / static_cast<double>(num_batches_),
            .mean_latency = std::chrono::duration<double>(latency_).count() / count};
  }

  std::deque<SubmitBatch> submitted;  // since the caller looked

 private:
  void hand(const Event& event, nanoseconds now) {
    Commands commands;
    const double begin = bench::microseconds_used();
    core_.on(event, EncoderCore::TimePoint(now), commands);
    planning_ += bench::microseconds_used() - begin;
    for (Command& command : commands)
      if (auto* batch = std::get_if<SubmitBatch>(&command)) submitted.push_back(std::move(*batch));
  }

  EncoderCore core_;
  std::vector<Text> texts_;
  std::size_t num_admitted_ = 0, num_done_ = 0, num_batches_ = 0;
  std::uint64_t num_computed_ = 0, num_padding_ = 0;
  nanoseconds latency_{0};
  double planning_ = 0;  // microseconds
};

// All texts at once, on the device.
Played play_live(ProbedDevice& device, EncoderBatching batching, const EncoderCosts& costs,
                 const std::vector<Text>& texts) {
  Play play(batching, costs, texts);
  const auto begin = Clock::now();
  const auto now = [&] { return nanoseconds(Clock::now() - begin) + nanoseconds(1); };
  std::deque<std::pair<Ticket, SubmitBatch>> in_flight;
  const auto submit = [&] {
    for (; !play.submitted.empty(); play.submitted.pop_front())
      in_flight.emplace_back(device.submit(play.submitted.front().batch), play.submitted.front());
  };
  while (play.has_arrival()) {
    play.admit_next(now());
    submit();
  }
  while (!in_flight.empty()) {
    const auto [ticket, batch] = std::move(in_flight.front());
    in_flight.pop_front();
    play.finish(batch, device.wait_for(ticket), now());
    submit();
  }
  return play.result(now());
}

// Batches take what they cost; of a ragged one a padded one of as many tokens.
nanoseconds time_of(const EncoderCosts& costs, const Batch& batch) {
  const auto count = static_cast<std::uint32_t>(batch.slices.size());
  return nanoseconds(static_cast<std::int64_t>(costs(std::max(batch.num_tokens() / count, 1U), count)));
}

Played play_simulated(EncoderBatching batching, const EncoderCosts& costs, const std::vector<Text>& texts) {
  Play play(batching, costs, texts);
  nanoseconds now{1}, device_free{0};
  std::deque<std::pair<nanoseconds, SubmitBatch>> in_flight;  // when it is done
  while (play.has_arrival() || !in_flight.empty()) {
    if (play.has_arrival() && (in_flight.empty() || play.next_arrival() <= in_flight.front().first)) {
      now = std::max(now, play.next_arrival());
      play.admit_next(now);
    } else {
      const auto [done, batch] = std::move(in_flight.front());
      in_flight.pop_front();
      now = done;
      BatchResult result;
      result.batch_id = batch.batch_id;
      result.vectors.resize(batch.batch->slices.size() * 384);
      play.finish(batch, std::move(result), now);
    }
    for (; !play.submitted.empty(); play.submitted.pop_front()) {
      device_free = std::max(device_free, now) + time_of(costs, *play.submitted.front().batch);
      in_flight.emplace_back(device_free, std::move(play.submitted.front()));
    }
  }
  return play.result(now);
}

using Runs = std::map<const char*, std::vector<Played>>;  // by the arm's name, a seed after the other

bench::Spread spread_of(const Runs& runs, const char* arm, double Played::*member) {
  std::vector<double> values;
  for (const Played& run : runs.at(arm)) values.push_back(run.*member);
  return bench::spread_of(values);
}

bench::Spread ratio_of(const Runs& runs, const char* arm, const char* base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < runs.at(arm).size(); ++i)
    ratios.push_back(runs.at(arm)[i].texts_a_second / runs.at(base)[i].texts_a_second);
  return bench::spread_of(ratios);
}

void print(const Runs& runs, const Workload& workload, const char* how) {
  std::printf("%s, U(%u,%u)\n%-8s %28s %26s %9s %9s %10s\n", how, workload.shortest, workload.longest, "",
              "texts/s", "over padded", "batch", "padding", "planning");
  for (const Arm& arm : kArms) {
    const auto rate = spread_of(runs, arm.name, &Played::texts_a_second);
    const auto ratio = ratio_of(runs, arm.name, "padded");
    std::printf("%-8s %10.1f (%7.1f-%7.1f) %12.3f (%.3f-%.3f) %9.1f %7.1f %% %8.3f %%\n", arm.name,
                rate.median, rate.minimum, rate.maximum, ratio.median, ratio.minimum, ratio.maximum,
                spread_of(runs, arm.name, &Played::mean_batch).median,
                100 * spread_of(runs, arm.name, &Played::padding).median,
                100 * spread_of(runs, arm.name, &Played::planning).median);
  }
}

void print_latencies(const Runs& runs, double rate) {
  std::printf("mean latency at %.1f texts/s, ms:", rate);
  for (const Arm& arm : kArms) {
    const auto latency = spread_of(runs, arm.name, &Played::mean_latency);
    std::printf("  %s %.1f (%.1f-%.1f)", arm.name, latency.median * 1e3, latency.minimum * 1e3,
                latency.maximum * 1e3);
  }
  std::printf("\n\n");
}

template <class PlayArm>
Runs run_seeds(const Workload& workload, std::uint32_t num_texts, std::uint64_t num_seeds, double rate,
               const PlayArm& play_arm) {
  Runs runs;
  for (std::uint64_t seed = 1; seed <= num_seeds; ++seed) {
    const auto texts = draw_texts(workload, num_texts, rate, seed);
    for (std::size_t i = 0; i < kArms.size(); ++i) {
      const Arm& arm = kArms[(i + seed) % kArms.size()];
      runs[arm.name].push_back(play_arm(arm.batching, texts));
    }
  }
  return runs;
}

std::string minilm_directory() {
  const auto directory = std::filesystem::temp_directory_path() / "troupe_bench_minilm";
  if (std::filesystem::exists(directory / "model.safetensors")) return directory.string();
  ModelConfig config;
  config.architecture = "BertModel";
  config.hidden_size = 384;
  config.intermediate_size = 1536;
  config.num_layers = 6;
  config.num_heads = config.num_kv_heads = 12;
  config.head_dim = 32;
  config.vocabulary_size = kVocabulary;
  config.context_length = 512;
  config.norm_epsilon = 1e-12F;
  config.encoder = EncoderConfig{};
  write_random_bert(directory, config, 1);
  return directory.string();
}

int run(std::uint32_t num_texts, std::uint64_t num_seeds) {
  CpuModelSettings settings;
  settings.num_slots = kMostTexts;
  settings.max_batch_tokens = kMostTokens;
  const auto on_cpu = load_cpu_model(plan_cpu_model(minilm_directory(), settings));
  LoadedModel model;
  model.served.network = on_cpu->network;
  model.served.compute_type = on_cpu->compute_type;
  model.make_device = [&](WorkerId) { return std::make_unique<CpuDevice>(on_cpu); };
  ProbedDevice device(model);
  const auto begin = Clock::now();
  const EncoderCosts costs = measure_encoder_costs(device, 2);
  std::printf(
      "MiniLM's shape, random weights, %s, %u threads; %u texts, %llu seeds; costs measured in %.1f s\n\n",
      std::string(name_of(on_cpu->compute_type)).c_str(), on_cpu->settings.num_threads, num_texts,
      static_cast<unsigned long long>(num_seeds),
      std::chrono::duration<double>(Clock::now() - begin).count());
  for (const Workload& workload : {Workload{2, 100}, Workload{5, kLongest}}) {
    print(run_seeds(workload, num_texts, num_seeds, 0,
                    [&](EncoderBatching batching, const std::vector<Text>& texts) {
                      return play_live(device, batching, costs, texts);
                    }),
          workload, "on the device");
    const auto simulated = [&](EncoderBatching batching, const std::vector<Text>& texts) {
      return play_simulated(batching, costs, texts);
    };
    const Runs at_once = run_seeds(workload, num_texts, num_seeds, 0, simulated);
    print(at_once, workload, "simulated");
    const double rate = kLoad * spread_of(at_once, "padded", &Played::texts_a_second).median;
    print_latencies(run_seeds(workload, num_texts, num_seeds, rate, simulated), rate);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto number = [&](int index, int otherwise) {
    return std::max(argc > index ? std::atoi(argv[index]) : otherwise, 1);
  };
  try {
    return run(static_cast<std::uint32_t>(number(1, 400)), static_cast<std::uint64_t>(number(2, 5)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_encoder_batches: %s\n", error.what());
    return 1;
  }
}
