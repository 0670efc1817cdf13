// SPDX-License-Identifier: Apache-2.0
// The real server with two workers, each a process; one of them is killed while both
// answer.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/trace/trace_file.hpp"
#include "tests/app/end_to_end/streamed_answer.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_with(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB", "--device",
                           "cpu", "--workers", "2"});
  return more;
}

double of_worker(const ServerProcess& server, const std::string& name, std::uint64_t worker) {
  return ServerMetrics(server.port())
      .sum("troupe_by_worker_" + name, "worker=\"" + std::to_string(worker) + '"');
}

// Lines of the log that say that this happened.
std::vector<json> events(const ServerProcess& server, const std::string& event) {
  std::vector<json> found;
  std::istringstream lines(server.output());
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line, nullptr, false);
    if (entry.is_object() && entry.value("event", "") == event) found.push_back(entry);
  }
  return found;
}

bool is_worker(pid_t pid) {
  return file_text("/proc/" + std::to_string(pid) + "/comm").starts_with("troupe-worker");
}

// A request on a worker.
struct Run {
  std::int64_t start = 0;
  std::uint64_t worker = 0, epoch = 0;
};

// By request, in order.
std::map<std::string, std::vector<Run>> runs_in(const std::string& trace_file) {
  std::map<std::string, std::map<std::int64_t, Run>> ordered;
  for (const auto& span : troupe::read_trace_file(trace_file).spans)
    if (span.name == "prefill")
      ordered[span.trace_id][span.start] = {
          .start = span.start,
          .worker = static_cast<std::uint64_t>(span.number("troupe.worker.id")),
          .epoch = static_cast<std::uint64_t>(span.number("troupe.worker.epoch"))};
  std::map<std::string, std::vector<Run>> runs;
  for (const auto& [trace, by_start] : ordered)
    for (const auto& [start, run] : by_start) runs[trace].push_back(run);
  return runs;
}

}  // namespace

TEST_CASE("several workers: in one process they share the weights, and both answer") {
  ServerProcess server(flags_with());
  std::vector<std::future<Streamed>> streams;
  for (int i = 0; i < 4; ++i)
    streams.push_back(std::async(std::launch::async, stream_of, server.port(), "Count from 3 to 7."));
  for (auto& stream : streams) CHECK(stream.get().text == "3, 4, 5, 6, 7");
  for (const std::uint64_t worker : {0, 1}) {
    CHECK(of_worker(server, "up", worker) == 1);
    CHECK(of_worker(server, "iterations_total", worker) > 0);
  }
  CHECK(children_of(server.pid()).empty());
  CHECK(server.output().find("2 workers") != std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("several workers: what a killed one had goes on at the other before a new one is there") {
  const std::vector<std::string> questions = {"Count from 5 to 90.", "Count from 1 to 80.",
                                              "Count from 20 to 99.", "Count from 7 to 95."};
  std::vector<Streamed> undisturbed;
  {
    ServerProcess server(flags_with());
    for (const auto& question : questions) undisturbed.push_back(long_stream_of(server.port(), question));
    CHECK(undisturbed[0].text.find("88, 89, 90") != std::string::npos);
  }
  const TemporaryFile trace;
  ServerProcess server(flags_with(
      {"--worker-placement", "child", "--log-format", "json", "--trace-file", trace.path().string()}));
  const auto port = server.port();
  REQUIRE(eventually([&] { return json::parse(http_get(port, "/ready").body).value("workers_up", 0) == 2; }));
  // Stopped until all four are there: none may end before the last has begun.
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 2);
  for (const pid_t worker : workers) REQUIRE(::kill(worker, SIGSTOP) == 0);
  std::vector<std::future<Streamed>> streams;
  for (const auto& question : questions) streams.push_back(begin_long_stream(port, question));
  REQUIRE(eventually([&] {
    return of_worker(server, "requests_running", 0) == 2 && of_worker(server, "requests_running", 1) == 2;
  }));
  for (const pid_t worker : workers) REQUIRE(::kill(worker, SIGCONT) == 0);
  wait_for_tokens(server, 60);
  REQUIRE(::kill(workers.front(), SIGKILL) == 0);
  // The new one stands still while it starts, so that all answers end without it.
  pid_t replacement = 0;
  REQUIRE(eventually([&] {
    for (const pid_t child : children_of(server.pid()))
      if (std::count(workers.begin(), workers.end(), child) == 0 && is_worker(child)) replacement = child;
    return replacement != 0;
  }));
  REQUIRE(::kill(replacement, SIGSTOP) == 0);
  for (std::size_t i = 0; i < questions.size(); ++i) CHECK(streams[i].get() == undisturbed[i]);
  REQUIRE(::kill(replacement, SIGCONT) == 0);

  REQUIRE(eventually([&] { return events(server, "device ready").size() == 3; }));
  CHECK(eventually([&] { return json::parse(http_get(port, "/ready").body).value("workers_up", 0) == 2; }));
  const auto lost = events(server, "worker lost");
  const auto ready = events(server, "device ready");
  REQUIRE(lost.size() == 1);
  REQUIRE(ready.size() == 3);
  const std::uint64_t dead = lost.front().at("worker");
  CHECK(ready.back().at("worker") == dead);
  CHECK(ready.back().at("epoch") == 3);
  CHECK(of_worker(server, "restarts_total", dead) == 1);
  CHECK(of_worker(server, "restarts_total", 1 - dead) == 0);
  CHECK(children_of(server.pid()).size() == 2);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);

  int num_moved = 0;
  for (const auto& [request, runs] : runs_in(trace.path().string())) {
    if (runs.size() == 1) continue;
    num_moved += 1;
    CHECK(runs.size() == 2);
    CHECK(runs.front().worker == dead);
    CHECK(runs.back().worker == 1 - dead);
    CHECK(runs.back().epoch <= 2);  // the other, as it was
  }
  CHECK(num_moved == 2);
}

TEST_CASE("several workers: a GPU has one") {
  const auto result = run_command({TROUPE_BINARY, "serve", "--port", "0", "--model",
                                   TROUPE_SOURCE_DIR "/models/demo", "--device", "cuda", "--workers", "2"});
  CHECK(result.exit_status == 78);
  CHECK(result.output.find("--workers: a GPU runs one worker") != std::string::npos);
}
