// SPDX-License-Identifier: Apache-2.0
// Time from exec of the server to a 200 on /ready, with the demo model: with the
// costs of KV pages estimated, measured by this start, and kept by an earlier
// one, the disk tier included. Goal: at most 1 s.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/statistics.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

constexpr int kRuns = 9;

// Negative: it did not become ready.
double seconds_to_ready(const std::string& model, const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"--model", model, "--log-level", "warning"};
  all.insert(all.end(), flags.begin(), flags.end());
  const auto start = std::chrono::steady_clock::now();
  test::ServerProcess server(all);
  if (test::http_get(server.port(), "/ready").status != 200) return -1;
  const auto time = std::chrono::steady_clock::now() - start;
  server.signal(SIGTERM);
  server.wait();
  return std::chrono::duration<double>(time).count();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : TROUPE_SOURCE_DIR "/models/demo";
  const test::TemporaryDirectory kept;
  const struct {
    const char* name;
    std::vector<std::string> flags;
  } arms[] = {{"estimated", {"--cache-measure=false"}},
              {"measured", {"--cache-measure=true"}},
              {"kept", {"--cache-measure=true", "--store-directory", kept.path().string()}}};
  for (const auto& [name, flags] : arms) {
    std::vector<double> seconds;
    for (int run = -1; run < kRuns; ++run) {  // the first one measures what is kept
      const double time = seconds_to_ready(model, flags);
      if (time < 0) {
        std::fprintf(stderr, "/ready was not 200 after the server said so\n");
        return 1;
      }
      if (run >= 0) seconds.push_back(time);
    }
    const auto spread = bench::spread_of(seconds);
    std::printf(
        "exec to /ready, costs %-9s %d runs: median %.3f s (min %.3f, max %.3f); share of the goal of 1 s: "
        "%.2f\n",
        name, kRuns, spread.median, spread.minimum, spread.maximum, spread.median);
  }
  return 0;
}
