// SPDX-License-Identifier: Apache-2.0
// A decision of the core, in processor time: the results of a batch of 64 sequences
// that decode are taken in, and the next batch is formed, as a server makes it: tokens
// kept, pages committed, slices built. Processor time of the one thread, half a
// microsecond of it for reading that clock. Five seeds, 4,000 decisions each.
// Goal: 50 us. Usage: bench_decision [sequences]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <variant>
#include <vector>

#include "bench/processor_time.hpp"
#include "bench/statistics.hpp"
#include "engine/engine_core.hpp"

using namespace troupe;

namespace {

constexpr double kGoalMicroseconds = 50;
constexpr int kSeeds = 5;
constexpr int kDecisions = 4'000;
constexpr std::uint32_t kPageSize = 32;
constexpr std::uint32_t kContext = 8192;
constexpr std::uint32_t kMaxBatchTokens = 2048;
constexpr std::uint32_t kVocabulary = 128'000;

CoreOptions core_options(std::uint32_t num_sequences) {
  CoreOptions options;
  options.serving.max_batch_sequences = num_sequences;
  options.serving.max_batch_tokens = kMaxBatchTokens;
  options.serving.prefill_chunk = 512;
  return options;
}

// A core whose device draws tokens at random, one batch after the other.
class DecidingCore {
 public:
  DecidingCore(std::uint32_t num_sequences, std::uint64_t seed)
      : core_(core_options(num_sequences)), random_(seed) {
    hand(WorkerReady{.worker = 0,
                     .epoch = 1,
                     .description = {.name = "bench",
                                     .page_size = kPageSize,
                                     .num_pages = num_sequences * kContext / kPageSize,
                                     .num_slots = num_sequences,
                                     .max_batch_tokens = kMaxBatchTokens,
                                     .context_length = kContext,
                                     .vocabulary_size = kVocabulary}});
    for (SequenceId id = 1; id <= num_sequences; ++id) {
      auto ticket = std::make_shared<AdmissionTicket>();
      ticket->sequence = id;
      ticket->prompt.resize(200 + random_() % 1000);
      for (std::int32_t& token : ticket->prompt) token = draw();
      ticket->max_tokens = kContext - 1300;
      hand(Admit{.ticket = std::move(ticket)});
    }
  }

  bool is_decoding() const {
    return !in_flight_.empty() && in_flight_.back().batch->num_tokens() == core_.num_sequences() &&
           in_flight_.front().batch->num_tokens() == core_.num_sequences();
  }
  // Microseconds that the core took.
  double finish_batch() {
    BatchDone done{.worker = 0,
                   .epoch = 1,
                   .result = {.batch_id = in_flight_.front().batch_id, .tokens = {}, .error = {}}};
    for (const SequenceSlice& slice : in_flight_.front().batch->slices)
      done.result.tokens.push_back(slice.sample ? draw() : -1);
    in_flight_.pop_front();
    return hand(done);
  }

 private:
  std::int32_t draw() { return static_cast<std::int32_t>(random_() % kVocabulary); }

  double hand(const Event& event) {
    now_ += std::chrono::milliseconds(5);
    Commands commands;
    const double begin = bench::microseconds_used();
    core_.on(event, EngineCore::TimePoint(now_), commands);
    const double spent = bench::microseconds_used() - begin;
    for (Command& command : commands)
      if (auto* batch = std::get_if<SubmitBatch>(&command)) in_flight_.push_back(std::move(*batch));
    return spent;
  }

  EngineCore core_;
  std::mt19937_64 random_;
  std::chrono::nanoseconds now_{1};
  std::deque<SubmitBatch> in_flight_;
};

}  // namespace

int main(int argc, char** argv) {
  const int number = argc > 1 ? std::atoi(argv[1]) : 64;
  if (number < 1 || number > static_cast<int>(kMaxBatchTokens)) {
    std::fprintf(stderr, "expected 1 to %u sequences, got %s\n", kMaxBatchTokens, argv[1]);
    return 2;
  }
  const auto num_sequences = static_cast<std::uint32_t>(number);
  std::vector<double> medians, tails;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    DecidingCore core(num_sequences, seed);
    while (!core.is_decoding()) core.finish_batch();
    std::vector<double> spent;
    for (int i = 0; i < kDecisions; ++i) spent.push_back(core.finish_batch());
    std::sort(spent.begin(), spent.end());
    medians.push_back(spent[spent.size() / 2]);
    tails.push_back(spent[spent.size() * 99 / 100]);
  }
  const auto [p50_least, p50, p50_most] = bench::spread_of(medians);
  const auto [p99_least, p99, p99_most] = bench::spread_of(tails);
  std::printf("%u sequences, %d seeds, %d decisions each\n", num_sequences, kSeeds, kDecisions);
  std::printf(
      "a decision: p50 %.1f us (%.1f to %.1f), p99 %.1f us (%.1f to %.1f); goal / p99 %.2f (goal: %.0f us)\n",
      p50, p50_least, p50_most, p99, p99_least, p99_most, kGoalMicroseconds / p99, kGoalMicroseconds);
  return 0;
}
