// SPDX-License-Identifier: Apache-2.0
// What telemetry costs: tokens a second and CPU time a token of the real server
// with a no-op network, every request traced and logged against none, in turn,
// in one run. The goal: at most 1 % of the tokens a second at 64 streams.
// Usage: bench_telemetry_cost [streams [pairs]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/statistics.hpp"
#include "bench/streams.hpp"
#include "tests/support/otlp_sink.hpp"
#include "tests/support/server_process.hpp"

using namespace troupe;
using namespace troupe::bench;

namespace {

constexpr int kTokens = 1500;  // of a stream

std::vector<std::string> flags_with(std::vector<std::string> more) {
  std::vector<std::string> flags = {"--model",  TROUPE_SOURCE_DIR "/models/demo", "--model-name",          "bench",
                                    "--device", "noop",                           "--max-batch-sequences", "256"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

struct Sample {
  double tokens_a_second = 0;
  double cpu_us_a_token = 0;
};

Sample measure(const test::ServerProcess& server, int num_streams) {
  const double cpu_before = cpu_seconds(server.pid());
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> streams;
  for (int i = 0; i < num_streams; ++i) streams.push_back(open_stream(server.port(), kTokens));
  drain_streams(streams);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double tokens = static_cast<double>(num_streams) * kTokens;
  return {.tokens_a_second = tokens / wall,
          .cpu_us_a_token = (cpu_seconds(server.pid()) - cpu_before) * 1e6 / tokens};
}

// Pairs in alternating order, so that what drifts hits both alike.
void compare(const char* name, const std::vector<std::string>& flags, int num_streams, int num_pairs) {
  const test::ServerProcess off(flags_with({"--log-level", "error"}));
  const test::ServerProcess on(flags_with(flags));
  measure(off, num_streams);
  measure(on, num_streams);
  std::vector<double> rate, cpu, off_rate, off_cpu;
  for (int pair = 0; pair < num_pairs; ++pair) {
    const bool is_off_first = pair % 2 == 0;
    const Sample first = measure(is_off_first ? off : on, num_streams);
    const Sample second = measure(is_off_first ? on : off, num_streams);
    const Sample& without = is_off_first ? first : second;
    const Sample& with = is_off_first ? second : first;
    rate.push_back(with.tokens_a_second / without.tokens_a_second);
    cpu.push_back(with.cpu_us_a_token / without.cpu_us_a_token);
    off_rate.push_back(without.tokens_a_second);
    off_cpu.push_back(without.cpu_us_a_token);
  }
  const Spread rates = spread_of(rate);
  const Spread cpus = spread_of(cpu);
  std::printf("%-22s %10.0f %8.2f   %.3f (%.3f … %.3f)   %.3f (%.3f … %.3f)\n", name, spread_of(off_rate).median,
              spread_of(off_cpu).median, rates.median, rates.minimum, rates.maximum, cpus.median, cpus.minimum,
              cpus.maximum);
}

}  // namespace

int main(int argc, char** argv) {
  const int num_streams = argc > 1 ? std::atoi(argv[1]) : 64;
  const int num_pairs = argc > 2 ? std::atoi(argv[2]) : 15;
  const std::vector<std::string> logs = {"--log-requests", "--log-format", "json"};
  const auto with_logs = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), logs.begin(), logs.end());
    return flags;
  };
  std::printf("%d streams of %d tokens, %d pairs; ratios are on / off, median (minimum … maximum)\n", num_streams,
              kTokens, num_pairs);
  std::printf("%-22s %10s %8s   %-23s   %s\n", "on", "off tok/s", "us/tok", "tokens a second", "CPU a token");
  compare("nothing (the noise)", {"--log-level", "error"}, num_streams, num_pairs);
  compare("logs", logs, num_streams, num_pairs);
  const test::TemporaryPath file;
  compare("logs, traces to file", with_logs({"--trace-file", file.path().string()}), num_streams, num_pairs);
  test::OtlpSink sink;
  sink.answer_otherwise({.status = 202});  // taken, not looked at: its CPU is ours too
  compare("logs, traces to sink", with_logs({"--trace-endpoint", sink.url()}), num_streams, num_pairs);
  compare("logs, sampled 1 in 100", with_logs({"--trace-file", file.path().string(), "--trace-sample-ratio", "0.01"}),
          num_streams, num_pairs);
  return 0;
}
