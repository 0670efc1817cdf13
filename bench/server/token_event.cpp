// SPDX-License-Identifier: Apache-2.0
// CPU time the server spends on one streamed token, everything included (actors,
// text, HTTP, system calls), with the network replaced by a no-op. The server is
// the real binary, the client counts events. Goal: at most 20 µs; an existing
// server with a tiny model was measured at 110–190 µs.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/server/streams.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe;
using namespace troupe::bench;

namespace {

struct Arm {
  const char* name;
  const char* iteration_us;
  std::vector<int> num_streams;
  int num_tokens;
};

void report(const Arm& arm) {
  const test::ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--model-name", "bench",
                                    "--device", "noop", "--noop-iteration-us", arm.iteration_us,
                                    "--log-level", "warning", "--max-batch-sequences", "256"});
  for (const int num_streams : arm.num_streams) {
    const int rounds = num_streams < 8 ? 8 : 4;
    drain_streams({open_stream(server.port(), 50)});
    long events = 0;
    const double cpu_before = cpu_seconds(server.pid());
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> streams;
      for (int i = 0; i < num_streams; ++i) streams.push_back(open_stream(server.port(), arm.num_tokens));
      events += drain_streams(streams);
    }
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const long tokens = static_cast<long>(arm.num_tokens) * num_streams * rounds;
    const double cpu_us = (cpu_seconds(server.pid()) - cpu_before) * 1e6 / static_cast<double>(tokens);
    std::printf("%-10s %7d %8ld %8ld %8.2f %10.0f %10.2f   %.2f\n", arm.name, num_streams, tokens, events,
                wall, static_cast<double>(events) / wall, cpu_us, cpu_us / 20);
  }
}

}  // namespace

// Saturated: tokens come faster than a socket takes them, so events share
// writes. Paced: an iteration of 5 ms, as on a GPU, every event is a write.
int main() {
  std::printf("%-10s %7s %8s %8s %8s %10s %10s   %s\n", "arm", "streams", "tokens", "events", "wall s",
              "events/s", "CPU us/tok", "share of 20 us");
  report({.name = "saturated", .iteration_us = "0", .num_streams = {1, 8, 32, 64, 128}, .num_tokens = 1500});
  report({.name = "paced", .iteration_us = "5000", .num_streams = {1, 8, 32, 64, 128}, .num_tokens = 150});
  return 0;
}
