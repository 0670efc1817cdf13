// SPDX-License-Identifier: Apache-2.0
// The real binary's doors: descriptors, the port for metrics, names and pages.
#include "tests/http/test_client.hpp"

#include <doctest/doctest.h>

#include <list>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/http/free_port.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
namespace loadgen = troupe::loadgen;

namespace {

const std::string kModel = TROUPE_SOURCE_DIR "/models/demo";

// A server whose limits of open files are set by a shell before it starts.
struct LimitedServer {
  explicit LimitedServer(const std::string& ulimit)
      : server({.arguments = {"/bin/sh", "-c", ulimit + "; exec \"$0\" \"$@\"", TROUPE_BINARY, "serve",
                              "--port", "0", "--model", kModel, "--device", "noop"},
                .environment = {{"TROUPE_STORE_DIRECTORY", "none"}},
                .log_file = log.path()}) {}
  std::uint16_t port() const { return server.address().port; }

  TemporaryFile log;
  loadgen::ServerProcess server;
};

}  // namespace

TEST_CASE("edge: with few descriptors and more clients than they allow, probes are answered") {
  LimitedServer server("ulimit -n 64");
  std::list<TestClient> clients;
  for (int i = 0; i < 100; ++i) clients.emplace_back(server.port());
  for (const char* path : {"/health", "/ready", "/live"}) CHECK(http_get(server.port(), path).status == 200);
  CHECK(http_get(server.port(), "/v1/models").status == 503);
}

TEST_CASE("edge: the limit of open files is raised to what is allowed") {
  LimitedServer server("ulimit -S -n 64; ulimit -H -n 512");
  std::istringstream limits(file_text("/proc/" + std::to_string(server.server.pid()) + "/limits"));
  std::string line, soft, hard;
  while (std::getline(limits, line)) {
    if (line.starts_with("Max open files")) std::istringstream(line.substr(14)) >> soft >> hard;
  }
  CHECK(soft == "512");
  CHECK(hard == "512");
}

TEST_CASE("edge: with keys the metrics are on their own port only") {
  const auto metrics_port = free_port();
  const ServerProcess server({"--model", kModel, "--device", "noop", "--api-key", "k", "--metrics-port",
                              std::to_string(metrics_port)});
  CHECK(http_get(server.port(), "/metrics").status == 401);
  CHECK(http_get(server.port(), "/version").status == 401);
  CHECK(http_get(server.port(), "/health").body == R"({"status":"ok"})");
  CHECK(http_send(server.port(), "GET", "/metrics", "Authorization: Bearer k\r\n").status == 200);
  CHECK(http_get(metrics_port, "/metrics").body.find("troupe_num_requests_running") != std::string::npos);
  CHECK(http_send(metrics_port, "GET", "/v1/models", "Authorization: Bearer k\r\n").status == 404);
}

TEST_CASE("edge: without keys a page under another name reads nothing, one from elsewhere changes nothing") {
  const ServerProcess server({"--model", kModel, "--device", "noop", "--allowed-hosts", "gpu-box",
                              "--cors-origins", "http://chat.example"});
  const auto status = [&](const std::string& fields) {
    TestClient client(server.port());
    client.send("DELETE /v1/responses/resp_1 HTTP/1.1\r\n" + fields + "\r\n");
    return client.read_response().status;
  };
  CHECK(status("Host: evil.example\r\n") == 421);
  CHECK(status("Host: gpu-box:8000\r\n") == 404);
  CHECK(status("Host: localhost\r\nOrigin: http://evil.example\r\n") == 403);
  CHECK(status("Host: localhost\r\nOrigin: http://chat.example\r\n") == 404);
}

TEST_CASE("edge: the log says once which option lets a page of another origin read answers") {
  const ServerProcess server({"--model", kModel, "--device", "noop"});
  const auto times_said = [&] {
    const std::string output = server.output();
    std::size_t times = 0;
    for (std::size_t at = 0; (at = output.find("--cors-origins", at)) != std::string::npos; ++at) ++times;
    return times;
  };
  CHECK(http_get(server.port(), "/v1/models").status == 200);
  const std::string own = "Origin: http://localhost\r\n";  // as this client's Host
  CHECK(http_send(server.port(), "GET", "/v1/models", own).status == 200);
  CHECK(times_said() == 0);
  for (int i = 0; i < 2; ++i)
    CHECK(http_send(server.port(), "GET", "/v1/models", "Origin: http://page.example\r\n").status == 200);
  CHECK(troupe::test::eventually([&] { return times_said() == 1; }));
  CHECK(server.output().find("http://page.example") != std::string::npos);
}

TEST_CASE("edge: a server opened to the network keeps to the names it was given") {
  const ServerProcess server(
      {"--model", kModel, "--device", "noop", "--allow-open-network", "--allowed-hosts", "onlythis.example"});
  const auto status = [&](const std::string& host) {
    TestClient client(server.port());
    client.send("DELETE /v1/responses/resp_1 HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
                "\r\n\r\n");
    return client.read_response().status;
  };
  CHECK(status("evil.example:8000") == 421);
  CHECK(status("onlythis.example:8000") == 404);
}

TEST_CASE("edge: the page is there unless it is switched off") {
  const ServerProcess with_page({"--model", kModel, "--device", "noop"});
  CHECK(http_get(with_page.port(), "/").body.starts_with("<!DOCTYPE html>"));
  const ServerProcess without({"--model", kModel, "--device", "noop", "--page", "false"});
  CHECK(http_get(without.port(), "/").status == 404);
  CHECK(http_get(without.port(), "/v1/models").status == 200);
}

TEST_CASE("edge: options that can't be are refused before anything is loaded") {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
           {"--host", "example.com"}, {"--api-key", " "}, {"--model-name", "a b"}, {"--cors-origins", "x"}}) {
    const auto refused = run_command({TROUPE_BINARY, "serve", "--model", "/nowhere", flag, value});
    CHECK(refused.exit_status == 78);
    CHECK(refused.output.find(flag + ": expected") != std::string::npos);
  }
}
