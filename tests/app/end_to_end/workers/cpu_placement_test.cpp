// SPDX-License-Identifier: Apache-2.0
// The real binary's threads, as the kernel shows them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "telemetry/cpu_list.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

// Threads of the process by the list of CPUs that they may run on.
std::map<std::string, int> threads_by_cpus(pid_t pid) {
  constexpr std::string_view kField = "Cpus_allowed_list:\t";
  std::map<std::string, int> counts;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(kField)) counts[line.substr(kField.size())] += 1;
  }
  return counts;
}

}  // namespace

TEST_CASE("cpu placement: what computes and what reads and writes share no core") {
  const auto usable = cpus_of_thread();
  if (usable.size() < 2) {
    MESSAGE("SKIPPED: there is one core only");
    return;
  }
  const auto compute = std::to_string(usable[1]), others = std::to_string(usable[0]);
  for (const char* placement : {"inline", "child"}) {
    CAPTURE(placement);
    ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "cpu", "--memory", "64MiB",
                          "--worker-placement", placement, "--cpus", compute, "--io-cpus", others});
    pid_t pid = server.pid();
    if (std::string_view(placement) == "child") {
      CHECK(threads_by_cpus(pid).size() == 1);
      const auto children = children_of(pid);
      REQUIRE(children.size() == 1);
      pid = children.front();
    }
    REQUIRE(eventually([&] { return threads_by_cpus(pid).count(compute) == 1; }));
    auto threads = threads_by_cpus(pid);
    CHECK(threads.size() == 2);
    CHECK(threads[compute] == 1);
    CHECK(threads[others] >= 1);
  }
}

TEST_CASE("cpu placement: a CPU that is not there is a wrong configuration") {
  const auto result = run_command({TROUPE_BINARY, "serve", "--cpus", "1023"});
  CHECK(result.exit_status != 0);
  CHECK(result.output.find("--cpus: CPU 1023 is none that this process may use") != std::string::npos);
  CHECK(run_command({TROUPE_BINARY, "serve", "--io-cpus", "a"})
            .output.find("expected numbers of CPUs such as 0-2,5") != std::string::npos);
}
