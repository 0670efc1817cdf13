// SPDX-License-Identifier: Apache-2.0
// What the engine (actors, batching, text) adds to the network: the same decode
// work once through a direct loop on the device and once through the engine, in
// turn, in one process. Prints the ratio of the two, the share of the engine's
// time in which the device had nothing to do, prefill included (goal: at most
// 5 % at 16 streams of the 100 M model), and the cost of planning (goal: at most
// 2 % of an iteration).
// Usage: bench_engine [streams]
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "bench/models.hpp"
#include "bench/networks/direct_loop.hpp"
#include "bench/server/stream_steps.hpp"
#include "bench/statistics.hpp"
#include "gpu/program/planner.hpp"

using namespace troupe;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kPrompt = 32;
constexpr std::uint32_t kSteps = 48;
constexpr int kPairs = 7;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// When the tokens of a stream came; waits for the last one.
class TokenTimes final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<TextDelta>(&event)) add(delta->usage);
    if (const auto* finished = std::get_if<Finished>(&event)) add(finished->usage);
    if (std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event)) {
      has_ended_ = true;
      ended_.notify_all();
    }
  }
  std::size_t pending_bytes() const noexcept override { return 0; }
  bench::StreamTokens wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return has_ended_; });
    return tokens_;
  }

 private:
  void add(const Usage& usage) {
    const std::uint32_t num_tokens = usage.completion_tokens;
    if (num_tokens > (tokens_.empty() ? 0 : tokens_.back().num_tokens))
      tokens_.push_back({.time = Clock::now(), .num_tokens = num_tokens});
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  bench::StreamTokens tokens_;
};

// Seconds an iteration while all streams run.
double engine_iteration(Engine& engine, std::uint32_t num_streams, std::uint32_t vocabulary) {
  std::vector<std::shared_ptr<TokenTimes>> sinks;
  for (std::uint32_t stream = 0; stream < num_streams; ++stream) {
    GenerationRequest request;
    request.id = "bench";
    TokenPrompt prompt;
    for (std::uint32_t i = 0; i < kPrompt; ++i)
      prompt.tokens.push_back(static_cast<std::int32_t>((stream * 31 + i * 7 + 5) % vocabulary));
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = kSteps;
    request.ignore_eos = true;
    sinks.push_back(std::make_shared<TokenTimes>());
    engine.submit(std::move(request), sinks.back());
  }
  std::vector<bench::StreamTokens> streams;
  for (const auto& sink : sinks) {
    streams.push_back(sink->wait());
    if (streams.back().empty()) throw std::runtime_error("a stream ended without a token");
  }
  const double step = bench::seconds_per_step(streams);
  if (!(step > 0))
    throw std::runtime_error("expected streams that all run at once, got none: fewer streams?");
  return step;
}

// Seconds the device has spent on batches so far, from the engine's metrics.
double network_seconds(const Metrics& metrics) {
  const auto text = metrics.expose();
  const std::string name = "troupe_iteration_network_seconds_sum{model_name=\"bench\"} ";
  const auto at = text.find(name);
  if (at == std::string::npos) std::abort();
  return std::stod(text.substr(at + name.size()));
}

void report_planner(const CpuModel& model, std::uint32_t num_streams, double iteration) {
  const auto start = Clock::now();
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    const auto program = model.network->build_program(0, {num_streams, num_streams}, model.compute_type);
    if (plan_arena(tensor_uses(program, program.shape)).chunks.empty()) std::abort();
  }
  const double fresh = seconds(Clock::now() - start) / kRounds;
  ProgramCache programs(CpuModel(model).network, model.compute_type, model.largest);
  programs.find(0, num_streams, num_streams);
  const auto cached_start = Clock::now();
  constexpr int kLookUps = 100'000;
  for (int i = 0; i < kLookUps; ++i)
    if (programs.find(0, num_streams, num_streams) == nullptr) std::abort();
  const double cached = seconds(Clock::now() - cached_start) / kLookUps;
  std::printf(
      "planning: from nothing %.1f µs = %.2f %% of an iteration; from the cache %.3f µs = %.4f %% (goal <= 2 "
      "%%)\n",
      fresh * 1e6, 100 * fresh / iteration, cached * 1e6, 100 * cached / iteration);
}

int run(int argc, char** argv) {
  const auto num_streams = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 16);
  const auto directory = bench::llama_100m_model();
  CpuModelSettings settings;
  settings.memory_budget_bytes = 3ULL << 30;
  settings.max_pages = 1024;
  const auto model = load_cpu_model(plan_cpu_model(directory, settings));
  const auto vocabulary = model->network->shapes().vocabulary_size;

  ServedModel served;
  served.name = "bench";
  served.tokenizer = load_tokenizer(directory);
  served.network = model->network;
  served.compute_type = model->compute_type;
  Metrics metrics("bench");
  EngineOptions options;
  options.serving.cache_policy = EvictionPolicy::kNone;
  Engine engine(
      served, [&](WorkerId) { return std::make_unique<CpuDevice>(model); }, options, metrics);

  bench::CpuLoop loop(model, num_streams, kPrompt + kSteps + 8);
  std::vector<double> direct, actors, ratios, outside;
  for (int pair = -1; pair < kPairs; ++pair) {  // the first one warms up
    loop->prefill_all(kPrompt);
    const double iteration = loop->decode(kSteps - 1).seconds / (kSteps - 1);
    const double network_before = network_seconds(metrics);
    const auto start = Clock::now();
    const double through_engine = engine_iteration(engine, num_streams, vocabulary);
    const double wall = seconds(Clock::now() - start);
    if (pair < 0) continue;
    direct.push_back(iteration);
    actors.push_back(through_engine);
    ratios.push_back(through_engine / iteration);
    outside.push_back(1 - (network_seconds(metrics) - network_before) / wall);
  }
  const auto ratio = bench::spread_of(ratios);
  const auto share = bench::spread_of(outside);
  const double iteration = bench::spread_of(direct).median;
  std::printf("%u streams, random Llama of 100 M, %s, %u threads, %d pairs\n", num_streams,
              std::string(name_of(model->compute_type)).c_str(), model->settings.num_threads, kPairs);
  std::printf("iteration: direct loop %.3f ms, engine %.3f ms; engine / direct %.3f (%.3f-%.3f)\n",
              iteration * 1e3, bench::spread_of(actors).median * 1e3, ratio.median, ratio.minimum,
              ratio.maximum);
  std::printf("share of the time outside the network: %.2f %% (%.2f-%.2f; goal <= 5 %%)\n",
              100 * share.median, 100 * share.minimum, 100 * share.maximum);
  report_planner(*model, num_streams, iteration);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_engine: %s\n", error.what());
    return 1;
  }
}
