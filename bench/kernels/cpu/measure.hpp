// SPDX-License-Identifier: Apache-2.0
// Shared by the kernel benchmarks: a team of threads that run the tasks of one
// kernel at a time, a clock, medians, and the memory bandwidth of this machine.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace troupe {

// The measured quantity: elapsed time, or the most processor time a thread used. The
// latter is for shared machines, where threads of others take turns with ours.
enum class Clock { kElapsed, kProcessor };

class Team {
 public:
  Team(std::size_t num_threads, Clock clock)
      : barrier_(static_cast<std::ptrdiff_t>(num_threads)), clock_(clock) {
    for (std::size_t i = 1; i < num_threads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Team() {
    run_ = nullptr;
    barrier_.arrive_and_wait();
  }

  // Runs run(0 .. num_tasks - 1), returns the seconds it took.
  double time(std::size_t num_tasks, const std::function<void(std::size_t)>& run) {
    next_ = 0;
    longest_ = 0.0;
    num_tasks_ = num_tasks;
    run_ = &run;
    const auto start = std::chrono::steady_clock::now();
    barrier_.arrive_and_wait();
    work();
    barrier_.arrive_and_wait();
    if (clock_ == Clock::kProcessor) return longest_;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  static double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  void work() {
    const double start = processor_seconds();
    for (std::size_t task = next_++; task < num_tasks_; task = next_++) (*run_)(task);
    const double used = processor_seconds() - start;
    for (double seen = longest_; seen < used && !longest_.compare_exchange_weak(seen, used);) {
    }
  }
  void serve() {
    for (;;) {
      barrier_.arrive_and_wait();
      if (run_ == nullptr) return;
      work();
      barrier_.arrive_and_wait();
    }
  }

  std::barrier<> barrier_;
  Clock clock_;
  std::atomic<double> longest_ = 0.0;
  std::atomic<std::size_t> next_ = 0;
  std::size_t num_tasks_ = 0;
  const std::function<void(std::size_t)>* run_ = nullptr;
  std::vector<std::jthread> threads_;
};

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Memory in huge pages where the kernel gives them, as the weights are, touched.
template <typename T>
T* allocate_huge(std::size_t bytes) {
  void* memory = std::aligned_alloc(std::size_t{2} << 20, bytes);
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return static_cast<T*>(memory);
}

// The best of plain reads with one or four streams a thread, with and without
// software prefetch: which wins differs between machines. Bytes per second; the
// denominator of every bandwidth share.
inline double read_bandwidth(Team& team, std::size_t num_threads) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  constexpr std::size_t kRun = (std::size_t{132} << 10) / 64;  // lines of a stream at a time
  typedef std::uint64_t Vector __attribute__((vector_size(64), aligned(64)));
  struct Line {
    Vector value;
  };
  static const std::unique_ptr<Line[], void (*)(Line*)> memory(allocate_huge<Line>(kBytes),
                                                               [](Line* lines) { std::free(lines); });
  static std::atomic<std::uint64_t> sink;
  const std::size_t lines = kBytes / sizeof(Line) / num_threads;
  double best = 1e9;
  for (int repeat = 0; repeat < 12; ++repeat) {
    const std::size_t num_streams = repeat % 2 == 0 ? 1 : 4;
    const std::size_t ahead = repeat % 4 < 2 ? 0 : 64;
    best = std::min(best, team.time(num_threads, [&](std::size_t thread) {
      const Line* first = memory.get() + thread * lines;
      Vector sums[4] = {};
      for (std::size_t block = 0; block < lines; block += kRun * num_streams) {
        const std::size_t run = std::min(kRun, (lines - block) / num_streams);
        for (std::size_t i = 0; i < run; ++i) {
          for (std::size_t stream = 0; stream < num_streams; ++stream) {
            const Line* line = first + block + stream * run + i;
            if (ahead != 0) __builtin_prefetch(line + ahead);
            sums[stream] += line->value;
          }
        }
      }
      sink += (sums[0] + sums[1] + sums[2] + sums[3])[0];
    }));
  }
  return static_cast<double>(kBytes) / best;
}

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (auto& value : values) value = uniform(generator);
  return values;
}

// The argument at `index`, or what counts without it.
inline std::size_t number(int argc, char** argv, int index, std::size_t otherwise) {
  return index < argc ? std::strtoul(argv[index], nullptr, 10) : otherwise;
}

}  // namespace troupe
