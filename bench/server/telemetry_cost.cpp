// SPDX-License-Identifier: Apache-2.0
// What telemetry costs: tokens a second and CPU time a token of the real server
// with a no-op network, every request traced and logged against none, in turn,
// in one run. The goal: at most 1 % of the tokens a second at 64 streams.
// Usage: bench_telemetry_cost [streams [pairs [iteration_us]]]
// iteration_us 0 is the no-op network at full speed, over a million tokens a
// second; 1000 gives it the steps of a small real network, at which every event
// is a write of its own and samples vary far less.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/server/streams.hpp"
#include "bench/statistics.hpp"
#include "tests/support/observability/otlp_sink.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::bench;

namespace {

struct Load {
  int num_streams = 64;
  int num_pairs = 9;
  std::string iteration_us = "0";

  int num_tokens() const { return iteration_us == "0" ? 1500 : 400; }  // of a stream
  int num_rounds() const { return iteration_us == "0" ? 8 : 2; }       // for one sample
};

std::vector<std::string> flags_with(const Load& load, std::vector<std::string> more) {
  std::vector<std::string> flags = {"--model",
                                    TROUPE_SOURCE_DIR "/models/demo",
                                    "--model-name",
                                    "bench",
                                    "--device",
                                    "noop",
                                    "--max-batch-sequences",
                                    "256",
                                    "--noop-iteration-us",
                                    load.iteration_us};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

struct Sample {
  double tokens_a_second = 0;
  double cpu_us_a_token = 0;
};

Sample measure(const test::ServerProcess& server, const Load& load) {
  const double cpu_before = cpu_seconds(server.pid());
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < load.num_rounds(); ++round) {
    std::vector<int> streams;
    for (int i = 0; i < load.num_streams; ++i)
      streams.push_back(open_stream(server.port(), load.num_tokens()));
    drain_streams(streams);
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double tokens = static_cast<double>(load.num_streams) * load.num_tokens() * load.num_rounds();
  return {.tokens_a_second = tokens / wall,
          .cpu_us_a_token = (cpu_seconds(server.pid()) - cpu_before) * 1e6 / tokens};
}

// Pairs in alternating order, so that what drifts hits both alike.
void compare(const char* name, const std::vector<std::string>& flags, const Load& load) {
  const test::ServerProcess off(flags_with(load, {"--log-level", "error"}));
  const test::ServerProcess on(flags_with(load, flags));
  measure(off, load);
  measure(on, load);
  std::vector<double> rate, cpu, off_rate, off_cpu;
  for (int pair = 0; pair < load.num_pairs; ++pair) {
    const bool is_off_first = pair % 2 == 0;
    const Sample first = measure(is_off_first ? off : on, load);
    const Sample second = measure(is_off_first ? on : off, load);
    const Sample& without = is_off_first ? first : second;
    const Sample& with = is_off_first ? second : first;
    rate.push_back(with.tokens_a_second / without.tokens_a_second);
    cpu.push_back(with.cpu_us_a_token / without.cpu_us_a_token);
    off_rate.push_back(without.tokens_a_second);
    off_cpu.push_back(without.cpu_us_a_token);
  }
  const Spread rates = spread_of(rate);
  const Spread cpus = spread_of(cpu);
  std::printf("%-22s %10.0f %8.2f   %.3f (%.3f … %.3f)   %.3f (%.3f … %.3f)\n", name,
              spread_of(off_rate).median, spread_of(off_cpu).median, rates.median, rates.minimum,
              rates.maximum, cpus.median, cpus.minimum, cpus.maximum);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  if (argc > 1) load.num_streams = std::atoi(argv[1]);
  if (argc > 2) load.num_pairs = std::atoi(argv[2]);
  if (argc > 3) load.iteration_us = argv[3];
  const std::vector<std::string> logs = {"--log-requests", "--log-format", "json"};
  const auto with_logs = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), logs.begin(), logs.end());
    return flags;
  };
  std::printf(
      "%d streams of %d tokens, iterations of %s us, %d pairs; on / off: median (minimum … maximum)\n",
      load.num_streams, load.num_tokens(), load.iteration_us.c_str(), load.num_pairs);
  std::printf("%-22s %10s %8s   %-23s   %s\n", "on", "off tok/s", "us/tok", "tokens a second", "CPU a token");
  compare("nothing (the noise)", {"--log-level", "error"}, load);
  compare("logs", logs, load);
  const test::TemporaryFile file;
  compare("logs, traces to file", with_logs({"--trace-file", file.path().string()}), load);
  test::OtlpSink sink;
  sink.answer_otherwise({.status = 202});  // taken, not looked at: its CPU is ours too
  compare("logs, traces to sink", with_logs({"--trace-endpoint", sink.url()}), load);
  compare("logs, sampled 1 in 100",
          with_logs({"--trace-file", file.path().string(), "--trace-sample-ratio", "0.01"}), load);
  return 0;
}
