// SPDX-License-Identifier: Apache-2.0
// What signals do to the real binary, in every state that it may be in.
#include <doctest/doctest.h>
#include <signal.h>

#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "loadgen/client/server/child_process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/http/free_port.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace signals_test {
namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";

std::vector<std::string> noop_flags() {
  return {"--model", kDemoModel, "--device", "noop", "--noop-iteration-us", "20000", "--threads", "1"};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void stop(pid_t pid) {
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  REQUIRE(eventually([pid] { return is_stopped(pid); }));
}

// A server that is loading, and stays so: its worker process stands still.
class LoadingServer {
 public:
  LoadingServer() {
    // One that was too quick for us is ready by now, and ended.
    for (int i = 0; i < 50; ++i) {
      child_.emplace(loadgen::ChildCommand{
          .arguments = {TROUPE_BINARY, "serve", "--port", "0", "--model", kDemoModel, "--device", "cpu",
                        "--worker-placement", "child", "--memory", "64MiB", "--metrics-port",
                        std::to_string(metrics_port_)},
          .environment = {{"TROUPE_STORE_DIRECTORY", "none"}, {"TROUPE_CACHE_MEASURE", "false"}},
          .output_file = log_.path()});
      REQUIRE(eventually([&] {
        for (const pid_t child : children_of(child_->pid()))
          if (has(file_text("/proc/" + std::to_string(child) + "/comm"), "troupe-worker")) worker_ = child;
        return worker_ != 0;
      }));
      stop(worker_);
      if (is_loading() && is_loading()) return;
      worker_ = 0;
    }
    throw std::runtime_error("no server could be caught loading");
  }

  bool is_loading() const {
    return http_get(port(), "/health").body == "{\"status\":\"loading\"}" && !has(output(), "memory plan");
  }
  std::uint16_t port() const {
    const std::string mark = "listening host=127.0.0.1 port=";
    REQUIRE(eventually([&] { return has(output(), mark); }));
    const auto text = output();
    return static_cast<std::uint16_t>(std::stoi(text.substr(text.find(mark) + mark.size())));
  }
  std::uint16_t metrics_port() const { return metrics_port_; }
  std::string output() const { return file_text(log_.path()); }
  loadgen::ChildProcess& process() { return *child_; }
  pid_t worker() const { return worker_; }

 private:
  const std::uint16_t metrics_port_ = free_port();
  TemporaryFile log_;
  std::optional<loadgen::ChildProcess> child_;
  pid_t worker_ = 0;
};

std::string long_stream(std::uint16_t port) {
  const json body = {{"prompt", "a"}, {"max_tokens", 1500}, {"stream", true}, {"ignore_eos", true}};
  try {
    return http_post(port, "/v1/completions", body.dump()).body;
  } catch (const std::runtime_error&) {
    return "cut off";  // its server has gone
  }
}

void wait_for_stream(const ServerProcess& server) {
  REQUIRE(eventually(
      [&] { return json::parse(http_get(server.port(), "/health").body)["requests_running"] == 1; }));
}

}  // namespace

TEST_CASE("signals: a server that was stopped, told to end and continued ends in order, every time") {
  for (int i = 0; i < 20; ++i) {
    ServerProcess server(noop_flags());
    stop(server.pid());
    server.signal(SIGTERM);
    server.signal(SIGCONT);
    CHECK(server.wait() == 0);
    CHECK(has(server.output(), "draining"));
  }
}

TEST_CASE("signals: a second signal ends the process at once, with 130") {
  for (const int second : {SIGTERM, SIGINT}) {
    ServerProcess server(noop_flags());
    auto stream = std::async(std::launch::async, long_stream, server.port());
    wait_for_stream(server);
    server.signal(SIGTERM);
    REQUIRE(eventually([&] { return has(server.output(), "draining"); }));
    CHECK(http_get(server.port(), "/ready").status == 503);
    CHECK(http_get(server.port(), "/health").status == 200);
    server.signal(second);
    CHECK(server.wait() == 130);
    stream.get();
  }
}

TEST_CASE("signals: two signals that come to a stopped process are two") {
  ServerProcess server(noop_flags());
  auto stream = std::async(std::launch::async, long_stream, server.port());
  wait_for_stream(server);
  stop(server.pid());
  server.signal(SIGTERM);
  server.signal(SIGINT);
  server.signal(SIGCONT);
  CHECK(server.wait() == 130);
  stream.get();
}

TEST_CASE("signals: while the model loads clients are told so, and a signal ends the server at once") {
  for (const int number : {SIGTERM, SIGINT}) {
    LoadingServer server;
    const auto ready = http_get(server.port(), "/ready");
    CHECK(ready.status == 503);
    CHECK(has(ready.headers, "Retry-After: "));
    CHECK(json::parse(ready.body)["status"] == "loading");
    CHECK(http_get(server.port(), "/health").status == 503);
    CHECK(http_get(server.port(), "/live").status == 200);
    CHECK(http_get(server.metrics_port(), "/live").status == 200);
    CHECK(http_get(server.metrics_port(), "/metrics").status == 503);
    const auto refused =
        http_post(server.port(), "/v1/completions", "{\"prompt\": \"" + std::string(100'000, 'x') + "\"}");
    CHECK(refused.status == 503);
    CHECK(has(json::parse(refused.body)["error"]["message"], "loading"));
    server.process().signal(number);
    CHECK(server.process().wait() == 0);
    CHECK(has(server.output(), "stopped while loading"));
    CHECK(is_gone_soon(server.worker()));
  }
}

TEST_CASE("signals: what connects while the model loads is served afterwards") {
  LoadingServer server;
  const auto port = server.port();
  REQUIRE(http_get(port, "/ready").status == 503);
  REQUIRE(::kill(server.worker(), SIGCONT) == 0);
  CHECK(eventually([&] { return http_get(port, "/ready").status == 200; }));
  CHECK(http_get(server.metrics_port(), "/metrics").status == 200);
  CHECK(http_post(port, "/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 2}").status == 200);
  server.process().signal(SIGTERM);
  CHECK(server.process().wait() == 0);
}

TEST_CASE("signals: generate and profile are ended by Ctrl-C") {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"generate", "--raw", "a", "-n", "1500", "--noop-iteration-us", "100000"},
           {"profile", "--noop-iteration-us", "100", "--rounds", "1000", "--out", "/dev/null"}}) {
    const TemporaryFile log;
    std::vector<std::string> command = {TROUPE_BINARY};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), {"--device", "noop", "--model", kDemoModel});
    loadgen::ChildProcess process({.arguments = command,
                                   .environment = {{"TROUPE_STORE_DIRECTORY", "none"}},
                                   .output_file = log.path()});
    REQUIRE(eventually([&] { return !file_text(log.path()).empty(); }));
    process.signal(SIGINT);
    CHECK(process.wait() == 128 + SIGINT);
  }
}

}  // namespace signals_test
