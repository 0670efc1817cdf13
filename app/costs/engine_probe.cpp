// SPDX-License-Identifier: Apache-2.0
#include "app/costs/engine_probe.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "policy/costs/nonnegative_fit.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPromptTokens = 16;
constexpr std::uint32_t kSteps = 48;
constexpr std::chrono::seconds kEngineStop{10};

double nanoseconds(Clock::duration time) {
  return static_cast<double>(std::chrono::nanoseconds(time).count());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Remembers when the first and the last token came.
class TimingSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<TextDelta>(event)) {
      if (first_ == Clock::time_point{}) first_ = now;
      last_ = now;
    } else if (auto* failed = std::get_if<Failed>(&event)) {
      error_ = failed->error.message;
      has_ended_ = true;
    } else if (std::holds_alternative<Finished>(event)) {
      has_ended_ = true;
    }
    if (has_ended_) ended_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return has_ended_; });
    if (!error_.empty()) throw std::runtime_error("profile: the engine failed: " + error_);
    if (first_ == Clock::time_point{}) throw std::runtime_error("profile: an answer had no text");
  }
  Clock::time_point first() const { return first_; }
  Clock::time_point last() const { return last_; }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::string error_;
  Clock::time_point first_{}, last_{};
};

struct StreamTimes {
  double first_token = 0;  // of the first stream
  double iteration = 0;    // with all streams running
};

StreamTimes run_streams(Engine& engine, std::uint32_t num_streams, std::uint32_t vocabulary_size) {
  std::vector<std::shared_ptr<TimingSink>> sinks;
  const auto begin = Clock::now();
  for (std::uint32_t stream = 0; stream < num_streams; ++stream) {
    GenerationRequest request;
    request.id = "profile";
    TokenPrompt prompt;
    for (std::uint32_t i = 0; i < kPromptTokens; ++i)
      prompt.tokens.push_back(static_cast<std::int32_t>((stream * 31 + i * 7 + 5) % vocabulary_size));
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = kSteps;
    request.ignore_eos = true;
    sinks.push_back(std::make_shared<TimingSink>());
    engine.submit(std::move(request), sinks.back());
  }
  for (const auto& sink : sinks) sink->wait();
  // From when the last one has begun all run, until the first ends shortly before it.
  const auto span = sinks.back()->last() - sinks.back()->first();
  return {.first_token = nanoseconds(sinks.front()->first() - begin),
          .iteration = nanoseconds(span) / (kSteps - 1)};
}

class EngineProbe {
 public:
  EngineProbe(const LoadedModel& model, const EngineOptions& options)
      : vocabulary_size_(model.config.vocabulary_size),
        metrics_(model.served.name),
        engine_(model.served, model.make_device, options, metrics_) {}
  ~EngineProbe() { (void)engine_.stop(kEngineStop); }

  // Medians over rounds; the first warms up.
  StreamTimes measure(std::uint32_t num_streams, std::uint32_t num_rounds) {
    std::vector<double> first_tokens, iterations;
    for (std::uint32_t round = 0; round <= num_rounds; ++round) {
      const auto times = run_streams(engine_, num_streams, vocabulary_size_);
      if (round == 0) continue;
      first_tokens.push_back(times.first_token);
      iterations.push_back(times.iteration);
    }
    return {.first_token = median(first_tokens), .iteration = median(iterations)};
  }

 private:
  std::uint32_t vocabulary_size_;
  Metrics metrics_;
  Engine engine_;
};

double decode_cost(const IterationCost& cost, std::uint32_t num_sequences) {
  IterationShape shape;
  for (std::uint32_t i = 0; i < num_sequences; ++i)
    shape.add({.num_tokens = 1, .context_length = kPromptTokens + kSteps / 2, .sample = true});
  return static_cast<double>(cost(shape).count());
}

double prefill_cost(const IterationCost& cost) {
  IterationShape shape;
  shape.add({.num_tokens = kPromptTokens, .context_length = 0, .sample = true});
  return static_cast<double>(cost(shape).count());
}

}  // namespace

ServingOverheads measure_engine(const LoadedModel& model, const EngineOptions& options,
                                const IterationCost& cost, std::uint32_t num_rounds) {
  ServingOverheads overheads;
  std::vector<double> a, b;
  {
    EngineProbe probe(model, options);
    for (std::uint32_t n = 1; n <= std::min(options.serving.max_batch_sequences, 64U); n *= 4) {
      const auto times = probe.measure(n, num_rounds);
      if (n == 1) overheads.request = std::max(0.0, times.first_token - prefill_cost(cost));
      a.insert(a.end(), {1.0, static_cast<double>(n)});
      b.push_back(std::max(0.0, times.iteration - decode_cost(cost, n)));
    }
  }
  const auto added = fit_nonnegative(a, b, 2);
  overheads.iteration = added[0];
  overheads.iteration_per_sequence = added[1];

  EngineOptions one_in_flight = options;
  one_in_flight.serving.max_in_flight = 1;
  EngineProbe probe(model, one_in_flight);
  overheads.turnaround =
      std::max(0.0, probe.measure(1, num_rounds).iteration - decode_cost(cost, 1) - added[0] - added[1]);
  overheads.request = std::max(0.0, overheads.request - overheads.turnaround - added[0] - added[1]);
  return overheads;
}

}  // namespace troupe
