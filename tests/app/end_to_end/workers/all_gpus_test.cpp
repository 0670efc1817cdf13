// SPDX-License-Identifier: Apache-2.0
// --device cuda:all: a worker on each GPU, with a library in the CUDA backend's place
// that pretends to have several.
#include "app/loading/all_gpus.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <array>
#include <chrono>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/app/end_to_end/streamed_answer.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

// Of servers that are started meanwhile.
class Machine {
 public:
  explicit Machine(int num_gpus, const std::string& trouble = "host") {
    ::setenv("FAKE_GPUS", std::to_string(num_gpus).c_str(), 1);
    ::setenv("FAKE_CUDA", trouble.c_str(), 1);
  }
  ~Machine() {
    ::unsetenv("FAKE_GPUS");
    ::unsetenv("FAKE_CUDA");
  }
};

std::vector<std::string> flags_with(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "128MiB", "--log-format",
                           "json", "--device", "cuda:all", "--cuda-library", TROUPE_FAKE_CUDA});
  return more;
}

CommandResult failed_start(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {TROUPE_BINARY, "serve", "--port", "0"};
  const auto flags = flags_with(more);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_command(arguments);
}

// The lines "device ready" of the log, in order.
std::vector<json> ready_devices(const ServerProcess& server) {
  std::vector<json> found;
  std::istringstream lines(server.output());
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line, nullptr, false);
    if (entry.is_object() && entry.value("event", "") == "device ready") found.push_back(entry);
  }
  return found;
}

std::map<int, std::string> device_by_worker(const ServerProcess& server) {
  std::map<int, std::string> devices;
  for (const json& ready : ready_devices(server)) devices[ready.at("worker")] = ready.at("device");
  return devices;
}

bool are_up(const ServerProcess& server, int num_workers) {
  return eventually([&] {
    return json::parse(http_get(server.port(), "/ready").body).value("workers_up", 0) == num_workers;
  });
}

double of_worker(const ServerProcess& server, const std::string& name, int worker) {
  return ServerMetrics(server.port())
      .sum("troupe_by_worker_" + name, "worker=\"" + std::to_string(worker) + '"');
}

}  // namespace

TEST_CASE("all gpus: each has a worker of its number, and all of them answer") {
  for (const std::string placement : {"child", "inline"}) {
    CAPTURE(placement);
    const Machine machine(3);
    ServerProcess server(flags_with({"--worker-placement", placement}));
    REQUIRE(are_up(server, 3));
    std::vector<std::future<Streamed>> streams;
    for (int i = 0; i < 6; ++i) streams.push_back(begin_long_stream(server.port(), "Count from 3 to 7."));
    for (auto& stream : streams) CHECK(stream.get().text.starts_with("3, 4, 5, 6, 7"));
    CHECK(device_by_worker(server) ==
          std::map<int, std::string>{{0, "fake GPU 0"}, {1, "fake GPU 1"}, {2, "fake GPU 2"}});
    for (int worker = 0; worker < 3; ++worker) CHECK(of_worker(server, "iterations_total", worker) > 0);
    CHECK(children_of(server.pid()).size() == (placement == "child" ? 3 : 0));
    CHECK(server.output().find("3 workers") != std::string::npos);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
}

TEST_CASE("all gpus: what a killed worker had goes on at another, and its successor has its GPU") {
  const std::array<const char*, 2> questions = {"Count from 5 to 90.", "Count from 1 to 80."};
  const Machine machine(2);
  std::vector<Streamed> undisturbed;
  {
    ServerProcess server(flags_with());
    for (const char* question : questions) undisturbed.push_back(long_stream_of(server.port(), question));
  }
  CHECK(undisturbed[0].text.find("88, 89, 90") != std::string::npos);
  ServerProcess server(flags_with({"--workers", "2"}));
  REQUIRE(are_up(server, 2));
  std::vector<std::future<Streamed>> streams;
  for (const char* question : questions) streams.push_back(begin_long_stream(server.port(), question));
  REQUIRE(eventually([&] {
    return of_worker(server, "requests_running", 0) == 1 && of_worker(server, "requests_running", 1) == 1;
  }));
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 2);
  REQUIRE(::kill(workers.back(), SIGKILL) == 0);
  for (std::size_t i = 0; i < questions.size(); ++i) CHECK(streams[i].get() == undisturbed[i]);
  REQUIRE(eventually([&] { return ready_devices(server).size() == 3; }));
  const auto ready = ready_devices(server);
  const int dead = ready.back().at("worker");
  CHECK(ready.back().at("device") == "fake GPU " + std::to_string(dead));
  CHECK(of_worker(server, "restarts_total", dead) == 1);
  CHECK(of_worker(server, "restarts_total", 1 - dead) == 0);
  CHECK(children_of(server.pid()).size() == 2);
}

TEST_CASE("all gpus: the one with the least memory decides how many pages all have") {
  const Machine machine(3, "less_memory");
  const ServerProcess server(flags_with());
  REQUIRE(are_up(server, 3));
  const auto ready = ready_devices(server);
  REQUIRE(ready.size() == 3);
  const int pages = ready.front().at("pages");
  for (const json& device : ready) CHECK(device.at("pages") == pages);
  const Machine enough(1, "none");
  const ServerProcess other(flags_with());
  REQUIRE(are_up(other, 1));
  CHECK(ready_devices(other).front().at("pages") > pages);
}

TEST_CASE("all gpus: one is as good as several, and needs no number of workers") {
  const Machine machine(1);
  const ServerProcess server(flags_with());
  CHECK(stream_of(server.port(), "Count from 3 to 7.").text == "3, 4, 5, 6, 7");
  CHECK(children_of(server.pid()).size() == 1);
}

TEST_CASE("all gpus: another number of workers is refused, with the number of GPUs") {
  const Machine machine(2);
  for (const std::string workers : {"1", "3"}) {
    const auto result = failed_start({"--workers", workers});
    CHECK(result.exit_status == 78);
    CHECK(result.output.find(
              "--workers: with --device cuda:all it is the number of GPUs, 2, or left out; got " + workers) !=
          std::string::npos);
  }
}

TEST_CASE("all gpus: GPUs that compute otherwise, or can't be used, are named") {
  {
    const Machine machine(3, "other_kind");
    const auto result = failed_start();
    CHECK(result.exit_status == 1);
    CHECK(result.output.find("cuda:1 computes otherwise than cuda:0: other, not fake") != std::string::npos);
  }
  const Machine machine(3, "no_memory");
  const auto result = failed_start();
  CHECK(result.exit_status == 1);
  CHECK(result.output.find("cuda:0: the model does not fit") != std::string::npos);
}
