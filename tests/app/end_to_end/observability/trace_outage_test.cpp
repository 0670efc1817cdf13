// SPDX-License-Identifier: Apache-2.0
// Collectors fail. Serving must not notice, spans lost must be counted, and the
// server must still end in time.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/otlp_sink.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/observability/trace_tree.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> noop_flags(std::vector<std::string> more) {
  std::vector<std::string> flags = {
      "--model", TROUPE_SOURCE_DIR "/models/demo", "--log-level", "error", "--device", "noop"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void ask(std::uint16_t port, int count, int max_tokens = 20) {
  const json body = {{"model", "demo"}, {"messages", user_asks("Hi")}, {"max_tokens", max_tokens}};
  for (int i = 0; i < count; ++i) {
    const auto answer = http_post(port, "/v1/chat/completions", body.dump());
    REQUIRE(answer.status == 200);
    CHECK(json::parse(answer.body).at("usage").at("completion_tokens") == max_tokens);
  }
}

double num_dropped(std::uint16_t port, const std::string& reason) {
  return ServerMetrics(port).series("troupe_trace_spans_dropped_total{model_name=\"demo\",reason=\"" +
                                    reason + "\"}");
}

}  // namespace

TEST_CASE("trace outage: a collector that is down costs spans, not answers") {
  std::string url;
  {
    const OtlpSink gone;
    url = gone.url();
  }
  ServerProcess server(
      noop_flags({"--trace-endpoint", url, "--trace-max-queued-spans", "256", "--trace-export-iterations"}));
  ask(server.port(), 50);
  CHECK(ServerMetrics(server.port()).series("troupe_trace_spans_exported_total") == 0);
  CHECK(num_dropped(server.port(), "queue_full") > 0);  // 50 requests are 250 spans and 1000 iterations
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE(
    "trace outage: a collector that refuses, hangs up or talks nonsense has its spans counted as lost") {
  for (const SinkAnswer& answer : {SinkAnswer{.status = 400}, SinkAnswer{.hangs_up = true},
                                   SinkAnswer{.status = 0, .raw = "what?\r\n\r\n"}}) {
    OtlpSink sink;
    sink.answer_otherwise(answer);
    ServerProcess server(noop_flags({"--trace-endpoint", sink.url()}));
    ask(server.port(), 5);
    CHECK(eventually([&] { return num_dropped(server.port(), "export_failed") > 0; }));
    CHECK(ServerMetrics(server.port()).series("troupe_trace_spans_exported_total") == 0);
    ask(server.port(), 5);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
}

TEST_CASE(
    "trace outage: a collector that never answers fills the queue, no more, and does not delay the end") {
  OtlpSink sink;
  sink.answer_otherwise({.says_nothing = true});
  ServerProcess server(noop_flags(
      {"--trace-endpoint", sink.url(), "--trace-max-queued-spans", "512", "--trace-export-iterations"}));
  ask(server.port(), 1);
  REQUIRE(sink.wait_for_requests(1));  // it waits for that one from now on
  ask(server.port(), 60);
  CHECK(num_dropped(server.port(), "queue_full") > 0);
  CHECK(ServerMetrics(server.port()).series("troupe_trace_spans_exported_total") == 0);
  const auto start = std::chrono::steady_clock::now();
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("trace outage: when the collector is back, so are the spans") {
  OtlpSink sink;
  sink.answer_next({{.status = 503}, {.hangs_up = true}});
  ServerProcess server(noop_flags({"--trace-endpoint", sink.url()}));
  // A batch is sent again until it arrives; the queue keeps what comes meanwhile.
  for (int attempt = 0; attempt < 10'000 && sink.spans().empty(); ++attempt) ask(server.port(), 1);
  CHECK_FALSE(trees_of(sink.spans()).empty());
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("trace outage: the file is written though the collector is down") {
  const TemporaryFile file;
  ServerProcess server(
      noop_flags({"--trace-endpoint", "http://127.0.0.1:1", "--trace-file", file.path().string()}));
  ask(server.port(), 3);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  const auto trees = trees_of(read_spans(file.path().string()));
  CHECK(trees.size() == 3);
  for (const auto& tree : trees) CHECK(problems_of(tree) == "");
}

TEST_CASE("trace outage: an endpoint or a file that can't be is named at the start") {
  const auto refusal = [](const std::string& flag, const std::string& value) {
    return run_command({TROUPE_BINARY, "serve", "--port", "0", "--model", TROUPE_SOURCE_DIR "/models/demo",
                        "--device", "noop", flag, value});
  };
  const auto no_url = refusal("--trace-endpoint", "localhost:4318");
  CHECK(no_url.exit_status == 78);
  CHECK(no_url.output.find("--trace-endpoint: ") != std::string::npos);
  CHECK(
      no_url.output.find("expected a collector's URL such as http://localhost:4318, got 'localhost:4318'") !=
      std::string::npos);
  const auto no_certificates =
      run_command({"/usr/bin/env", "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca.pem", TROUPE_BINARY, "serve",
                   "--port", "0", "--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "noop",
                   "--trace-endpoint", "https://localhost"});
  CHECK(no_certificates.exit_status == 78);
  CHECK(no_certificates.output.find("trusted certificates, got '/nowhere/ca.pem'") != std::string::npos);
  const auto no_grpc = run_command({"/usr/bin/env", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", TROUPE_BINARY,
                                    "serve", "--port", "0", "--model", TROUPE_SOURCE_DIR "/models/demo",
                                    "--device", "noop", "--trace-endpoint", "http://localhost"});
  CHECK(no_grpc.exit_status == 78);
  CHECK(no_grpc.output.find("OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf or http/json") !=
        std::string::npos);
  const auto no_file = refusal("--trace-file", "/nowhere/traces.jsonl");
  CHECK(no_file.exit_status == 78);
  CHECK(no_file.output.find("--trace-file: ") != std::string::npos);
  CHECK(no_file.output.find("/nowhere/traces.jsonl: No such file or directory") != std::string::npos);
  const auto no_ratio = refusal("--trace-sample-ratio", "1.5");
  CHECK(no_ratio.exit_status == 78);
  CHECK(no_ratio.output.find("expected a number from 0 to 1, got '1.5'") != std::string::npos);
}
