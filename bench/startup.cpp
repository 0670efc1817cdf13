// SPDX-License-Identifier: Apache-2.0
// Time from exec of the server to a 200 on /ready, with the demo model.
// Goal: at most 1 s.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/statistics.hpp"
#include "tests/support/http_client.hpp"
#include "tests/support/server_process.hpp"

using namespace troupe;

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : TROUPE_SOURCE_DIR "/models/demo";
  constexpr int kRuns = 9;
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    test::ServerProcess server({"--model", model, "--log-level", "warning"});
    if (test::http_get(server.port(), "/ready").status != 200) {
      std::fprintf(stderr, "/ready was not 200 after the server said so\n");
      return 1;
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    server.signal(SIGTERM);
    server.wait();
  }
  const auto spread = bench::spread_of(seconds);
  std::printf("exec to /ready, %d runs: median %.3f s (min %.3f, max %.3f); share of the goal of 1 s: %.2f\n", kRuns,
              spread.median, spread.minimum, spread.maximum, spread.median);
  return 0;
}
