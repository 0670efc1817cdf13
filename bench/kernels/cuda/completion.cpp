// SPDX-License-Identifier: Apache-2.0
// How the host learns that a batch is done (BatchMaker §4.2): a word that a kernel
// writes and the host polls, cudaLaunchHostFunc, events, the stream.
//
// Nobody's clock is on both sides. So a kernel, once all behind it is queued, tells
// the host that it has begun and ends a known time later; what the host then waits
// beyond that time is how much longer the end takes to the host than a word does,
// and a word takes half of a round trip.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/kernels/cuda/probe_kernels.hpp"
#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"
#include "gpu/cuda/kernels/signal.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Host memory that the device writes.
class Word {
 public:
  std::uint64_t* address() const { return as<std::uint64_t>(memory_); }
  std::uint64_t load() const { return std::atomic_ref(*address()).load(std::memory_order_acquire); }
  void store(std::uint64_t value) const {
    std::atomic_ref(*address()).store(value, std::memory_order_release);
  }
  // Throws std::runtime_error if it does not come.
  void wait_for(std::uint64_t value) const {
    const auto begin = Clock::now();
    for (std::uint32_t polls = 0; load() < value; ++polls) {
      if (polls % 1024 == 1023 && seconds_since(begin) > 10.0)
        throw std::runtime_error("a word from the device did not come for 10 seconds");
    }
  }

 private:
  PinnedBuffer memory_ = pinned_buffer(64);
};

struct Percentiles {
  double p50, p90, p99;
};
Percentiles percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.5), at(0.9), at(0.99)};
}

// Half of the time of a word to the device and back.
double one_way_seconds(const Bench& bench) {
  const std::uint64_t rounds = bench.pick(2000, 3);
  const Word to_device, to_host;
  const Stream stream;
  launch_echo({.from_host = to_device.address(), .to_host = to_host.address(), .last = rounds}, stream);
  std::vector<double> seconds;
  for (std::uint64_t number = 1; number <= rounds; ++number) {
    const auto begin = Clock::now();
    to_device.store(number);
    to_host.wait_for(number);
    seconds.push_back(seconds_since(begin));
  }
  stream.synchronize();
  if (to_host.load() == kGaveUp) throw std::runtime_error("the device did not see the host's word");
  return percentiles(std::move(seconds)).p50 / 2;
}

// What stands behind the work on a stream, and how the host waits for it.
struct Way {
  const char* name;
  const char* title;
  std::function<void(cudaStream_t, std::uint64_t number)> queue;
  std::function<void(cudaStream_t, std::uint64_t number)> wait;
};

struct Signals {
  Word signalled, called;
  PinnedBuffer host_tokens = pinned_buffer(64 * sizeof(std::int32_t));
  DeviceBuffer tokens = random_buffer(DataType::kF32, 64);
  Event spinning{cudaEventDisableTiming};
  Event sleeping{cudaEventDisableTiming | cudaEventBlockingSync};

  void queue_signal(cudaStream_t stream, std::uint64_t number) const {
    launch_signal({.token_ids = as<std::int32_t>(tokens),
                   .num_tokens = 64,
                   .host_token_ids = as<std::int32_t>(host_tokens),
                   .word = signalled.address(),
                   .batch = number},
                  stream);
  }
  void queue_call(cudaStream_t stream) const {
    CUDA_CHECK(cudaLaunchHostFunc(
        stream, [](void* word) { std::atomic_ref(*static_cast<std::uint64_t*>(word)).fetch_add(1); },
        called.address()));
  }
};

// CUDA loads a kernel when it is first launched, and may then wait for those that
// run: one of them would wait for the host.
void load_signal() {
  const Signals signals;
  const Stream stream;
  signals.queue_signal(stream, 1);
  stream.synchronize();
}

std::vector<Way> ways_of(const Signals& signals) {
  const auto record = [](cudaEvent_t event) {
    return [event](cudaStream_t stream, std::uint64_t) { CUDA_CHECK(cudaEventRecord(event, stream)); };
  };
  const auto synchronize = [](cudaEvent_t event) {
    return [event](cudaStream_t, std::uint64_t) { CUDA_CHECK(cudaEventSynchronize(event)); };
  };
  const auto query = [&signals](cudaStream_t, std::uint64_t) {
    while (cudaEventQuery(signals.spinning) == cudaErrorNotReady) {
    }
  };
  return {{"polled_word", "a polled word",
           [&](cudaStream_t stream, std::uint64_t number) { signals.queue_signal(stream, number); },
           [&](cudaStream_t, std::uint64_t number) { signals.signalled.wait_for(number); }},
          {"host_function", "cudaLaunchHostFunc",
           [&](cudaStream_t stream, std::uint64_t) { signals.queue_call(stream); },
           [&](cudaStream_t, std::uint64_t number) { signals.called.wait_for(number); }},
          {"event_query", "an event, polled", record(signals.spinning), query},
          {"event", "an event, waited for", record(signals.spinning), synchronize(signals.spinning)},
          {"event_blocking", "an event, slept for", record(signals.sleeping), synchronize(signals.sleeping)},
          {"stream", "the stream, waited for", [](cudaStream_t, std::uint64_t) {},
           [](cudaStream_t stream, std::uint64_t) { CUDA_CHECK(cudaStreamSynchronize(stream)); }}};
}

// From the end of a kernel until the host knows, without the way of a word.
Percentiles time_way(const Bench& bench, const Way& way) {
  constexpr std::uint64_t kNanoseconds = 20000;
  const Word may_begin, begun;
  const Stream stream;
  std::vector<double> seconds;
  for (std::uint64_t number = 1; number <= bench.pick(500U, 3U); ++number) {
    launch_spin({.may_begin = may_begin.address(),
                 .begun = begun.address(),
                 .number = number,
                 .nanoseconds = kNanoseconds},
                stream);
    way.queue(stream, number);  // may take longer than the kernel
    may_begin.store(number);
    begun.wait_for(number);
    if (begun.load() == kGaveUp) throw std::runtime_error("the device did not see the host's word");
    const auto begin = Clock::now();
    way.wait(stream, number);
    seconds.push_back(seconds_since(begin) - kNanoseconds * 1e-9);
    stream.synchronize();
  }
  return percentiles(std::move(seconds));
}

void bench_ways(Bench& bench) {
  const double one_way = one_way_seconds(bench);
  load_signal();
  const Signals signals;
  double polled = 0.0, called = 0.0;
  for (const auto& way : ways_of(signals)) {
    const Percentiles p = time_way(bench, way);
    const double us = (p.p50 + one_way) * 1e6;
    const bool is_polled = std::string(way.name) == "polled_word";
    if (is_polled) polled = us;
    if (std::string(way.name) == "host_function") called = us;
    bench.recorder.add({.id = std::string("completion_") + way.name,
                        .title = std::string("end of a kernel until the host knows: ") + way.title,
                        .value = us,
                        .unit = "us",
                        .goal = is_polled ? std::optional(Goal{.at_most = 3.0}) : std::nullopt,
                        .details = {{"p90_us", (p.p90 + one_way) * 1e6},
                                    {"p99_us", (p.p99 + one_way) * 1e6},
                                    {"one_way_us", one_way * 1e6}}});
  }
  bench.recorder.add({.id = "completion_polled_of_host_function",
                      .title = "a polled word against cudaLaunchHostFunc",
                      .value = polled / called,
                      .unit = "of its time",
                      .goal = Goal{.at_most = 1.0 / 3.0}});
}

// A decode batch as the device sees it: a graph of 64 small kernels, then whatever
// tells the host. Several of them are queued, as the worker does; outside a graph
// the host would be slower than the device, and nothing on the device would cost.
class Trains {
 public:
  explicit Trains(const Bench& bench)
      : bench_(bench),
        rows_(bench.pick(64U, 1U)),
        width_(bench.pick(4096U, 32U)),
        x_(random_buffer(DataType::kF32, std::size_t{rows_} * width_)),
        weight_(random_buffer(DataType::kF32, width_)),
        normed_(device_buffer(std::size_t{rows_} * width_ * 2)) {
    queue_kernel();
    stream_.synchronize();  // it is loaded
    graph_.emplace(stream_, [this] {
      for (unsigned i = 0; i < kKernels; ++i) queue_kernel();
    });
    (void)seconds_with(nullptr);
  }

  struct Times {
    double plain, slowed;  // seconds of all trains
  };
  // With and without in turn; the pair whose ratio is the median.
  Times compare(const Way& way) const {
    std::vector<Times> times;
    for (int repeat = 0; repeat < bench_.pick(15, 1); ++repeat) {
      const double plain = seconds_with(nullptr);
      times.push_back({plain, seconds_with(&way)});
    }
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end(),
                     [](const Times& a, const Times& b) { return a.slowed * b.plain < b.slowed * a.plain; });
    return *middle;
  }

 private:
  static constexpr unsigned kKernels = 64;

  // The second train is queued before the first is done, and so on.
  double seconds_with(const Way* way) const {
    return seconds_between_events(stream_, [&] {
      for (unsigned train = 0; train < bench_.pick(20U, 2U); ++train) {
        graph_->launch(stream_);
        if (way != nullptr) way->queue(stream_, ++number_);
      }
    });
  }

  void queue_kernel() const {
    launch_rms_norm({.x = as<float>(x_),
                     .x_stride = width_,
                     .weight = as<float>(weight_),
                     .normed = normed_.get(),
                     .normed_stride = width_,
                     .type = DataType::kBF16,
                     .num_rows = rows_,
                     .width = width_},
                    stream_);
  }

  const Bench& bench_;
  Stream stream_;
  std::uint32_t rows_, width_;
  DeviceBuffer x_, weight_, normed_;
  std::optional<Graph> graph_;
  mutable std::uint64_t number_ = 1000000;  // the words only grow
};

void bench_trains(Bench& bench) {
  const Trains trains(bench);
  const Signals signals;
  for (const auto& way : ways_of(signals)) {
    const std::string name = way.name;
    if (name != "polled_word" && name != "host_function" && name != "event") continue;
    // The host looks at the word all the while, as the worker does.
    std::jthread poller([&](const std::stop_token& stop) {
      while (name == "polled_word" && !stop.stop_requested()) (void)signals.signalled.load();
    });
    const auto [plain, slowed] = trains.compare(way);
    bench.recorder.add({.id = "train_slowed_by_" + name,
                        .title = std::string("64 small kernels, then ") + way.title,
                        .value = slowed / plain - 1.0,
                        .unit = "slower",
                        .goal = name == "polled_word" ? std::optional(Goal{.at_most = 0.02}) : std::nullopt,
                        .details = {{"plain_us", plain * 1e6}, {"slowed_us", slowed * 1e6}}});
  }
}

}  // namespace

void bench_completion(Bench& bench) {
  bench_ways(bench);
  bench_trains(bench);
}

}  // namespace troupe::bench
