// SPDX-License-Identifier: Apache-2.0
// A decision of the core of recurrent cells, in processor time, while so many nodes are
// ready: the results of a batch of 64 steps of a chain are taken in, and the next batch is
// formed, as a server makes it. Processor time of the one thread, half a microsecond of it
// for reading that clock. Five seeds, 4,000 decisions each. Goal: 50 us.
// Usage: bench_cell_decision [ready nodes] [nodes a batch]
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
#include "engine/cell_core.hpp"

using namespace troupe;

namespace {

constexpr double kGoalMicroseconds = 50;
constexpr int kSeeds = 5;
constexpr int kDecisions = 4'000;
constexpr std::uint32_t kContext = 60'000;
constexpr std::uint32_t kVocabulary = 30'000;

CoreOptions core_options(std::uint32_t num_nodes, std::uint32_t batch_size) {
  CoreOptions options;
  options.serving.max_batch_sequences = num_nodes;
  options.serving.max_batch_tokens = batch_size;
  options.serving.max_waiting = num_nodes;
  options.unfolding = UnfoldingRule{};
  return options;
}

// A core whose device draws tokens at random, one batch after the other. Two batches are in
// flight, so so many more requests run than nodes are ready.
class DecidingCore {
 public:
  DecidingCore(std::uint32_t num_nodes, std::uint32_t batch_size, std::uint64_t seed)
      : core_(core_options(num_nodes, batch_size)), random_(seed) {
    DeviceDescription device = {.name = "bench",
                                .num_slots = num_nodes,
                                .max_batch_tokens = batch_size,
                                .context_length = kContext,
                                .vocabulary_size = kVocabulary};
    device.cells = {{.name = "lstm", .state = StateKind::kRows, .result = ResultKind::kToken}};
    hand(WorkerReady{.worker = 0, .epoch = 1, .description = std::move(device)});
    for (SequenceId id = 1; id <= num_nodes; ++id) {
      auto ticket = std::make_shared<AdmissionTicket>();
      ticket->sequence = id;
      ticket->prompt.resize(4 + random_() % 40);
      for (std::int32_t& token : ticket->prompt) token = draw();
      ticket->max_tokens = kContext - 100;
      hand(Admit{.ticket = std::move(ticket)});
    }
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
    now_ += std::chrono::milliseconds(1);
    Commands commands;
    const double begin = bench::microseconds_used();
    core_.on(event, CellCore::TimePoint(now_), commands);
    const double spent = bench::microseconds_used() - begin;
    for (Command& command : commands)
      if (auto* batch = std::get_if<SubmitBatch>(&command)) in_flight_.push_back(std::move(*batch));
    return spent;
  }

  CellCore core_;
  std::mt19937_64 random_;
  std::chrono::nanoseconds now_{1};
  std::deque<SubmitBatch> in_flight_;
};

std::uint32_t argument(int argc, char** argv, int index, std::uint32_t otherwise) {
  const int number = argc > index ? std::atoi(argv[index]) : static_cast<int>(otherwise);
  if (number >= 1 && number <= 65536) return static_cast<std::uint32_t>(number);
  std::fprintf(stderr, "expected 1 to 65536 nodes, got %s\n", argv[index]);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t num_nodes = argument(argc, argv, 1, 1000);
  const std::uint32_t batch_size = argument(argc, argv, 2, 64);
  std::vector<double> medians, tails;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    DecidingCore core(num_nodes + 2 * batch_size, batch_size, seed);
    std::vector<double> spent;
    for (int i = 0; i < kDecisions; ++i) spent.push_back(core.finish_batch());
    std::sort(spent.begin(), spent.end());
    medians.push_back(spent[spent.size() / 2]);
    tails.push_back(spent[spent.size() * 99 / 100]);
  }
  const auto [p50_least, p50, p50_most] = bench::spread_of(medians);
  const auto [p99_least, p99, p99_most] = bench::spread_of(tails);
  std::printf("%u nodes ready, %u in a batch, %d seeds, %d decisions each\n", num_nodes, batch_size, kSeeds,
              kDecisions);
  std::printf(
      "a decision: p50 %.1f us (%.1f to %.1f), p99 %.1f us (%.1f to %.1f); goal / p99 %.2f (goal: %.0f us)\n",
      p50, p50_least, p50_most, p99, p99_least, p99_most, kGoalMicroseconds / p99, kGoalMicroseconds);
  return 0;
}
