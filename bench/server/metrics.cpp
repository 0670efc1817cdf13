// SPDX-License-Identifier: Apache-2.0
// What recording and reading metrics costs: an observation of our histogram
// against one of prometheus-cpp's, alone and with another thread at the same
// one, in turn in one process; and the time of an answer of /metrics in either
// format. Goal: an observation below 50 ns alone, and no dearer than theirs.
#include <prometheus/histogram.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "bench/statistics.hpp"
#include "telemetry/metrics/metrics.hpp"

using namespace troupe;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kRounds = 15;
constexpr unsigned kObservations = 400'000;

const std::vector<double> kBounds = {.0001, .00025, .0005, .001, .0015, .002, .003, .004, .006,
                                     .008,  .01,    .015,  .02,  .03,   .04,  .05,  .075, .1,
                                     .15,   .2,     .3,    .5,   .75,   1,    2.5,  5,    10};

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// A millisecond or so, no two alike in a row.
double gap(unsigned i) { return 2e-4 + 1e-6 * ((i * 7919) & 4095); }

double nanoseconds_each(const std::function<void(double)>& observe) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < kObservations; ++i) observe(gap(i));
  return seconds(Clock::now() - start) / kObservations * 1e9;
}

// While another thread does the same.
double contended(const std::function<void(double)>& observe) {
  std::atomic<bool> is_over = false;
  std::jthread other([&] {
    for (unsigned i = 0; !is_over; ++i) observe(gap(i));
  });
  const double time = nanoseconds_each(observe);
  is_over = true;
  return time;
}

void compare(const char* what, const std::function<double(const std::function<void(double)>&)>& measure) {
  const Metrics metrics("bench");
  prometheus::Histogram theirs{kBounds};
  const auto ours = [&](double value) { metrics.inter_token_latency.observe(value); };
  const auto baseline = [&](double value) { theirs.Observe(value); };
  std::vector<double> own, other, ratios;
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    const double a = measure(ours), b = measure(baseline);
    if (round < 0) continue;
    own.push_back(a);
    other.push_back(b);
    ratios.push_back(a / b);
  }
  const auto ratio = bench::spread_of(ratios);
  std::printf("%s: ours %.1f ns, prometheus-cpp's %.1f ns; ours / theirs %.2f (%.2f-%.2f)\n", what,
              bench::spread_of(own).median, bench::spread_of(other).median, ratio.median, ratio.minimum,
              ratio.maximum);
}

void report_exposition(const char* what, ExpositionFormat format) {
  const Metrics metrics("bench");
  for (unsigned i = 0; i < 100'000; ++i) metrics.inter_token_latency.observe(gap(i));
  std::vector<double> times;
  std::size_t size = 0;
  for (int round = 0; round < 200; ++round) {
    const auto start = Clock::now();
    size = metrics.expose(format).size();
    times.push_back(seconds(Clock::now() - start) * 1e3);
  }
  const auto spread = bench::spread_of(times);
  std::printf("%s: %.3f ms (%.3f-%.3f), %zu bytes\n", what, spread.median, spread.minimum, spread.maximum,
              size);
}

}  // namespace

int main() {
  compare("an observation alone", nanoseconds_each);
  compare("an observation, two threads at one histogram", contended);
  report_exposition("/metrics as text", ExpositionFormat::kText);
  report_exposition("/metrics as protobuf", ExpositionFormat::kProtobuf);
  return 0;
}
