// SPDX-License-Identifier: Apache-2.0
// How a thread hears that a batch on CPU cores is done: it polls the word that says so; it sleeps on
// a condition variable that the device's listener notifies, as actors do in effect; or it
// sleeps on an atomic word itself. A step of a chain of LSTMs or GRUs, two batches in flight, rounds in which
// the ways take turns. Time a batch, processor time a batch of the whole process, and ratios to the condition
// variable in the same round: polling takes a core from the network that it waits for. Usage:
// bench_completion [DIRECTORY] [batches] [rounds] [threads]
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <time.h>

#include "bench/statistics.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/program/program_cache.hpp"

using namespace troupe;

namespace {

constexpr std::uint32_t kBatchSizes[] = {1, 16, 64};
constexpr const char* kWays[] = {"poll", "condition variable", "atomic wait"};
enum class Way : std::uint8_t { kPoll, kCondition, kAtomic };

double process_microseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// The thread that waits, and the device's that tells it.
class Waiting {
 public:
  Waiting(CpuDevice& device, Way way) : device_(device), way_(way) {
    if (way_ == Way::kCondition)
      device_.set_listener([this] {
        const std::lock_guard lock(mutex_);
        rang_.notify_one();
      });
    if (way_ == Way::kAtomic)
      device_.set_listener([this] {
        ++rings_;
        rings_.notify_one();
      });
  }
  ~Waiting() { device_.set_listener({}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  BatchResult collect(Ticket ticket) {
    switch (way_) {
      case Way::kPoll:
        while (device_.completed() < ticket) {
        }
        break;
      case Way::kCondition: {
        std::unique_lock lock(mutex_);
        rang_.wait(lock, [&] { return device_.completed() >= ticket; });
        break;
      }
      case Way::kAtomic:
        for (auto seen = rings_.load(); device_.completed() < ticket; seen = rings_.load()) rings_.wait(seen);
    }
    BatchResult result = device_.collect(ticket);
    if (!result.error.empty()) throw std::runtime_error(result.error);
    return result;
  }

 private:
  CpuDevice& device_;
  Way way_;
  std::mutex mutex_;
  std::condition_variable rang_;
  std::atomic<std::uint32_t> rings_{0};
};

std::shared_ptr<const Batch> step_of(std::uint32_t num_nodes, std::uint32_t vocabulary) {
  auto batch = std::make_shared<Batch>();
  for (std::uint32_t i = 0; i < num_nodes; ++i) {
    SequenceSlice slice;
    slice.sequence = slice.slot = slice.first_input = i;
    slice.num_tokens = slice.num_inputs = 1;
    slice.sample = true;
    slice.sampling.temperature = 0;
    batch->input_rows.push_back(i);
    batch->slices.push_back(std::move(slice));
    batch->token_ids.push_back(static_cast<std::int32_t>(i % vocabulary));
  }
  return batch;
}

struct Cost {
  double time = 0, processor_time = 0;  // microseconds a batch
};

Cost measure(CpuDevice& device, ProgramCache& programs, Way way, std::uint32_t num_nodes, int num_batches) {
  const auto batch = step_of(num_nodes, device.description().vocabulary_size);
  const auto program = programs.find(0, num_nodes, num_nodes);
  Waiting waiting(device, way);
  Ticket last = device.submit(program, batch);
  const double used = process_microseconds();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < num_batches; ++i) {
    last = device.submit(program, batch);
    waiting.collect(last - 1);
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  const double spent = process_microseconds() - used;
  waiting.collect(last);
  return {.time = time.count() / num_batches, .processor_time = spent / num_batches};
}

void print(std::uint32_t num_nodes, const std::vector<std::vector<Cost>>& costs) {
  const auto reference = static_cast<std::size_t>(Way::kCondition);
  for (std::size_t way = 0; way < costs.size(); ++way) {
    std::vector<double> times, spent, ratios, spent_ratios;
    for (std::size_t round = 0; round < costs[way].size(); ++round) {
      const Cost &cost = costs[way][round], &other = costs[reference][round];
      times.push_back(cost.time);
      spent.push_back(cost.processor_time);
      ratios.push_back(cost.time / other.time);
      spent_ratios.push_back(cost.processor_time / other.processor_time);
    }
    const auto [least, ratio, most] = bench::spread_of(ratios);
    std::printf(
        "%4u nodes, %-18s: %8.1f us a batch, %8.1f us of processors; over the condition variable "
        "%.3f (%.3f to %.3f), %.3f\n",
        num_nodes, kWays[way], bench::spread_of(times).median, bench::spread_of(spent).median, ratio, least,
        most, bench::spread_of(spent_ratios).median);
  }
}

int run(const std::string& directory, int num_batches, int num_rounds, unsigned num_threads) {
  const auto model = load_cpu_model(
      plan_cpu_model(directory, {.num_threads = num_threads, .num_slots = 64, .max_batch_tokens = 64}));
  CpuDevice device(model);
  if (device.description().cells.size() != 1) throw std::runtime_error(directory + " is no chain of cells");
  ProgramCache programs(model->network, model->compute_type, model->largest);
  std::printf("%s, %u threads, %d batches, %d rounds\n", directory.c_str(), num_threads, num_batches,
              num_rounds);
  for (const std::uint32_t num_nodes : kBatchSizes) {
    std::vector<std::vector<Cost>> costs(std::size(kWays));
    for (int round = 0; round <= num_rounds; ++round)
      for (std::size_t way = 0; way < costs.size(); ++way) {
        const Cost cost = measure(device, programs, static_cast<Way>(way), num_nodes, num_batches);
        if (round > 0) costs[way].push_back(cost);  // the first warms up
      }
    print(num_nodes, costs);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : TROUPE_SOURCE_DIR "/tests/fixtures/cells/lstm";
  const int num_batches = argc > 2 ? std::atoi(argv[2]) : 2000,
            num_rounds = argc > 3 ? std::atoi(argv[3]) : 9;
  const int num_threads = argc > 4 ? std::atoi(argv[4]) : 2;
  if (num_batches < 1 || num_rounds < 1 || num_threads < 1) {
    std::fprintf(stderr, "expected batches, rounds and threads above 0\n");
    return 2;
  }
  try {
    return run(directory, num_batches, num_rounds, static_cast<unsigned>(num_threads));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_completion: %s\n", error.what());
    return 1;
  }
}
