// SPDX-License-Identifier: Apache-2.0
// The real binary sends its traces to a collector of ours: trees, times and
// attributes of requests that end well, and of all the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/http/test_client.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/otlp_sink.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/observability/trace_tree.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/tls/certificate_files.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kTraceId = "0af7651916cd43dd8448eb211c80319c";
const std::string kCaller = "b7ad6b7169203331";
const std::string kChat = "/v1/chat/completions";

std::string traceparent(const std::string& flags) {
  return "traceparent: 00-" + kTraceId + "-" + kCaller + "-" + flags + "\r\n";
}

const std::vector<std::string> kDemoFlags = {
    "--model", TROUPE_SOURCE_DIR "/models/demo", "--log-level", "error", "--memory", "64MiB"};

std::vector<std::string> flags_for(const OtlpSink& sink, std::vector<std::string> more = {}) {
  std::vector<std::string> flags = kDemoFlags;
  flags.insert(flags.end(), {"--trace-endpoint", sink.url()});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Variables that servers started meanwhile see.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

json body_of(const std::string& question, bool stream = false) {
  return {{"model", "demo"},
          {"messages", user_asks(question)},
          {"temperature", 0},
          {"max_tokens", 800},
          {"stream", stream}};
}

json endless_body() {
  json body = body_of("Count from 1 to 100.", true);
  body["ignore_eos"] = true;
  body["max_tokens"] = 1900;
  return body;
}

// Waits until so many requests have been traced.
std::vector<TraceTree> wait_for_trees(const OtlpSink& sink, std::size_t count) {
  CHECK(sink.wait_until([&](const auto& spans) { return trees_of(spans).size() >= count; }));
  auto trees = trees_of(sink.spans());
  REQUIRE(trees.size() == count);
  for (const auto& tree : trees) CHECK(problems_of(tree) == "");
  return trees;
}

// Ends the server, which sends what it still has; all trees then.
std::vector<TraceTree> trees_at_end(ServerProcess& server, const OtlpSink& sink) {
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  return trees_of(sink.spans());
}

}  // namespace

TEST_CASE("tracing: a streamed request continues its caller's trace and tells where its time went") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink));
  json body = body_of("Count from 3 to 7.", true);
  body["seed"] = 11;
  const auto answer = http_post(server.port(), kChat, body.dump(),
                                traceparent("01") + "tracestate: vendor=x1\r\nX-Request-Id: mine-1\r\n");
  REQUIRE(answer.status == 200);
  const auto tree = wait_for_trees(sink, 1).front();
  const auto& root = tree.root;
  CHECK(root.name == "chat demo");
  CHECK(root.trace_id == kTraceId);
  CHECK(root.parent_id == kCaller);
  CHECK(root.trace_state == "vendor=x1");
  CHECK(root.status == 0);
  CHECK(answer.headers.find("traceresponse: 00-" + kTraceId + "-" + root.span_id + "-01") !=
        std::string::npos);
  CHECK(answer.headers.find("X-Request-Id: mine-1") != std::string::npos);

  const auto& has = root.attributes;
  CHECK(has.at("gen_ai.operation.name") == "chat");
  CHECK(has.at("gen_ai.provider.name") == "troupe");
  CHECK(has.at("gen_ai.request.model") == "demo");
  CHECK(has.at("gen_ai.request.stream") == true);
  CHECK(has.at("gen_ai.request.max_tokens") == 800);
  CHECK(has.at("gen_ai.request.temperature") == 0);
  CHECK(has.at("gen_ai.request.seed") == 11);
  CHECK(has.at("gen_ai.response.model") == "demo");
  CHECK(has.at("gen_ai.response.finish_reasons") == json::array({"stop"}));
  CHECK(has.at("gen_ai.usage.input_tokens") == 11);
  CHECK(has.at("gen_ai.usage.output_tokens") == 10);
  CHECK(has.at("gen_ai.usage.cache_read.input_tokens") == 0);
  CHECK(has.at("http.request.method") == "POST");
  CHECK(has.at("url.path") == kChat);
  CHECK(has.at("http.response.status_code") == 200);
  CHECK(has.at("troupe.request_id") == "mine-1");
  CHECK_FALSE(has.contains("error.type"));
  CHECK(answer.body.find(has.at("gen_ai.response.id").get<std::string>()) != std::string::npos);

  CHECK(tree.phase_names() == std::vector<std::string>{"queue", "admit", "prefill", "decode"});
  CHECK(tree.phase("prefill").attributes.at("troupe.computed_tokens") == 11);
  // They follow each other without a gap, from the first to the last token.
  for (std::size_t i = 1; i < tree.phases.size(); ++i) CHECK(tree.phases[i].start == tree.phases[i - 1].end);
  CHECK(tree.phases.back().end == root.end);
  REQUIRE(root.events.size() == 1);
  CHECK(root.events[0].name == "first_token");
  CHECK(root.events[0].time == tree.phase("decode").start);
  const double to_first_chunk = has.at("gen_ai.response.time_to_first_chunk");
  CHECK(to_first_chunk == doctest::Approx(static_cast<double>(root.events[0].time - root.start) * 1e-9));
}

TEST_CASE("tracing: iterations are roots of their own that link to the requests they advanced") {
  const OtlpSink sink;
  ServerProcess server(flags_for(sink, {"--trace-export-iterations"}));
  REQUIRE(http_post(server.port(), kChat, body_of("Count from 3 to 7.").dump()).status == 200);
  const auto trees = trees_at_end(server, sink);
  REQUIRE(trees.size() == 1);
  const auto& root = trees[0].root;
  const auto iterations = iterations_of(sink.spans());
  REQUIRE(iterations.size() >= 10);  // a prefill and nine decodes at least
  std::int64_t prefill_tokens = 0;
  std::int64_t previous_end = 0;
  for (const auto& iteration : iterations) {
    CHECK(iteration.parent_id.empty());
    CHECK(iteration.trace_id != root.trace_id);
    REQUIRE(iteration.links.size() == 1);
    CHECK(iteration.links[0].trace_id == root.trace_id);
    CHECK(iteration.links[0].span_id == root.span_id);
    CHECK(iteration.start >= previous_end);  // one device, one batch at a time
    previous_end = iteration.end;
    CHECK(iteration.attributes.at("troupe.worker.epoch") == 1);
    CHECK(iteration.attributes.at("troupe.batch.sequences") == 1);
    CHECK(iteration.attributes.at("troupe.batch.network_seconds") > 0);
    prefill_tokens += iteration.attributes.at("troupe.batch.prefill_tokens").get<std::int64_t>();
  }
  CHECK(prefill_tokens == 11);
  CHECK(iterations.front().end <= trees[0].phase("prefill").end);
}

TEST_CASE("tracing: iterations go to the file, and to a collector only if asked for") {
  const OtlpSink sink;
  const TemporaryFile file;
  ServerProcess server(flags_for(sink, {"--trace-file", file.path().string()}));
  REQUIRE(http_post(server.port(), kChat, body_of("Count from 3 to 7.").dump()).status == 200);
  CHECK(trees_at_end(server, sink).size() == 1);
  CHECK(iterations_of(sink.spans()).empty());
  const auto in_file = read_spans(file.path().string());
  CHECK(trees_of(in_file).size() == 1);
  CHECK(iterations_of(in_file).size() >= 10);
}

TEST_CASE("tracing: a collector under TLS gets compressed traces with the headers that it asks for") {
  const CertificateFiles certificate("IP:127.0.0.1");
  OtlpSink sink(certificate);
  const Variables variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", sink.url()},
                             {"OTEL_EXPORTER_OTLP_CERTIFICATE", certificate.certificate_path()},
                             {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key"}});
  ServerProcess server(kDemoFlags);
  REQUIRE(http_post(server.port(), kChat, body_of("Count from 3 to 7.").dump()).status == 200);
  const auto trees = trees_at_end(server, sink);
  REQUIRE(trees.size() == 1);
  CHECK(problems_of(trees[0]) == "");
  CHECK(sink.last_path() == "/v1/traces");
  CHECK(sink.last_header("Content-Type") == "application/x-protobuf");
  CHECK(sink.last_header("Content-Encoding") == "gzip");
  CHECK(sink.last_header("Authorization") == "Bearer key");
}

TEST_CASE("tracing: a request without a caller begins a trace; a text completion says what it is") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink));
  const json body = {{"model", "demo"}, {"prompt", "one two"}, {"max_tokens", 4}, {"ignore_eos", true}};
  REQUIRE(http_post(server.port(), "/v1/completions", body.dump(), "traceparent: 00-zz-1-01\r\n").status ==
          200);
  const auto tree = wait_for_trees(sink, 1).front();
  CHECK(tree.root.name == "text_completion demo");
  CHECK(tree.root.parent_id.empty());
  CHECK(tree.root.attributes.at("gen_ai.request.stream") == false);
  CHECK(tree.root.attributes.at("gen_ai.response.finish_reasons") == json::array({"length"}));
  CHECK(tree.root.attributes.at("url.path") == "/v1/completions");
}

TEST_CASE("tracing: a long prompt is encoded on a thread of its own, and that is a phase") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink));
  json body = body_of("");
  for (int i = 0; i < 1000; ++i)
    body["messages"][0]["content"] = body["messages"][0]["content"].get<std::string>() + "one ";
  body["messages"][0]["content"] = body["messages"][0]["content"].get<std::string>() + std::string(200, ' ');
  body["max_tokens"] = 2;
  const auto answer = http_post(server.port(), kChat, body.dump());
  const auto tree = wait_for_trees(sink, 1).front();
  CAPTURE(answer.body);
  CHECK(tree.phase_names().front() == "encode");
}

TEST_CASE("tracing: a client that leaves in mid-answer leaves a whole tree") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink));
  http_post_and_leave(
      server.port(), kChat, endless_body().dump(),
      [](std::string_view raw) { return sse_payloads(raw).size() >= 10; }, traceparent("01"));
  const auto tree = wait_for_trees(sink, 1).front();
  CHECK(tree.root.trace_id == kTraceId);
  CHECK(tree.root.attributes.at("error.type") == "cancelled");
  CHECK(tree.root.attributes.at("http.response.status_code") == 200);  // it had been sent
  CHECK(tree.root.status == 2);
  CHECK(tree.root.attributes.at("gen_ai.usage.output_tokens") < 1900);
  CHECK(tree.root.attributes.at("gen_ai.usage.output_tokens") > 1);
  CHECK_FALSE(tree.root.attributes.contains("gen_ai.response.finish_reasons"));
  CHECK(tree.phase_names() == std::vector<std::string>{"queue", "admit", "prefill", "decode"});
}

TEST_CASE("tracing: a request that waits too long fails in its queue phase") {
  const OtlpSink sink;
  // A batch takes two seconds; one sequence runs, the other waits at most one.
  const ServerProcess server(flags_for(sink, {"--device", "noop", "--noop-iteration-us", "2000000",
                                              "--max-batch-sequences", "1", "--max-queue-seconds", "1"}));
  std::thread first([&] {
    json body = endless_body();
    body["max_tokens"] = 2;
    CHECK(http_post(server.port(), kChat, body.dump()).status == 200);
  });
  CHECK(eventually([&] { return ServerMetrics(server.port()).series("troupe_num_requests_running") > 0; }));
  const auto answer = http_post(server.port(), kChat, body_of("Hi").dump(), traceparent("01"));
  first.join();
  CHECK(answer.status == 429);
  const auto trees = wait_for_trees(sink, 2);
  const auto failed =
      std::find_if(trees.begin(), trees.end(), [](const auto& t) { return t.root.trace_id == kTraceId; });
  REQUIRE(failed != trees.end());
  CHECK(failed->root.attributes.at("error.type") == "overloaded");
  CHECK(failed->root.attributes.at("http.response.status_code") == 429);
  CHECK(failed->phase_names() == std::vector<std::string>{"queue"});
  CHECK(failed->phases[0].end - failed->phases[0].start >= 1'000'000'000);
}

TEST_CASE("tracing: what HTTP refuses has one short span with the status") {
  const OtlpSink sink;
  ServerProcess server(flags_for(sink, {"--api-key", "secret", "--max-body-bytes", "2000"}));
  const std::string key = "Authorization: Bearer secret\r\n";
  struct Case {
    std::string target, body, headers, name, status;
  };
  const std::vector<Case> cases = {
      {kChat, body_of("Hi").dump(), "", "POST " + kChat, "401"},
      {kChat, "{", key, "POST " + kChat, "400"},
      {kChat, json{{"model", "other"}, {"messages", body_of("Hi")["messages"]}}.dump(), key, "POST " + kChat,
       "404"},
      {kChat, body_of(std::string(3000, 'x')).dump(), key, "POST " + kChat, "413"},
      {"/nowhere/secret-path", "{}", key, "POST other", "404"},
      {"/v1/models", "{}", key, "POST /v1/models", "405"},
  };
  for (const auto& refused : cases)
    CHECK(std::to_string(http_post(server.port(), refused.target, refused.body, refused.headers).status) ==
          refused.status);
  CHECK(http_get(server.port(), "/health").status == 200);
  const auto trees = trees_at_end(server, sink);
  REQUIRE(trees.size() == cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].status);
    CHECK(problems_of(trees[i]) == "");
    CHECK(trees[i].root.name == cases[i].name);
    CHECK(trees[i].root.attributes.at("error.type") == cases[i].status);
    CHECK(std::to_string(trees[i].root.attributes.at("http.response.status_code").get<int>()) ==
          cases[i].status);
    CHECK(trees[i].root.status == 0);  // the client's fault is no error of the server's
    CHECK(trees[i].phases.empty());
    for (const auto& [name, value] : trees[i].root.attributes)
      CHECK(value.dump().find("secret") == std::string::npos);
  }
}

TEST_CASE("tracing: what the engine refuses is traced like all it sees") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink));
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "word ";
  CHECK(http_post(server.port(), kChat, body_of(words).dump()).status == 400);
  const auto tree = wait_for_trees(sink, 1).front();
  CHECK(tree.root.name == "chat demo");
  CHECK(tree.root.attributes.at("error.type") == "context_length_exceeded");
  CHECK(tree.root.attributes.at("http.response.status_code") == 400);
  CHECK(tree.root.status == 0);
}

TEST_CASE("tracing: the ratio decides for new traces, the caller for its own") {
  const OtlpSink sink;
  ServerProcess server(flags_for(sink, {"--trace-sample-ratio", "0"}));
  const std::string body = body_of("Count from 3 to 7.").dump();
  for (int i = 0; i < 3; ++i) CHECK(http_post(server.port(), kChat, body).status == 200);
  CHECK(http_post(server.port(), kChat, body, traceparent("00")).status == 200);
  CHECK(http_post(server.port(), kChat, "{").status == 400);
  CHECK(http_post(server.port(), kChat, body, traceparent("01")).status == 200);
  const auto trees = trees_at_end(server, sink);
  REQUIRE(trees.size() == 1);
  CHECK(trees[0].root.trace_id == kTraceId);
  CHECK_FALSE(trees[0].root.attributes.contains("troupe.kept"));
}

TEST_CASE("tracing: half of many requests is about half") {
  const OtlpSink sink;
  ServerProcess server(flags_for(sink, {"--device", "noop", "--trace-sample-ratio", "0.5"}));
  json body = body_of("Hi");
  body["max_tokens"] = 1;
  constexpr int kRequests = 400;
  for (int i = 0; i < kRequests; ++i) REQUIRE(http_post(server.port(), kChat, body.dump()).status == 200);
  const auto num_sampled = static_cast<int>(trees_at_end(server, sink).size());
  CHECK(std::abs(num_sampled - kRequests / 2) <= 60);  // six standard deviations
}

TEST_CASE("tracing: errors and slow requests are kept though they were not sampled") {
  const OtlpSink sink;
  ServerProcess server(flags_for(sink, {"--trace-sample-ratio", "0", "--trace-keep-slower-than-ms", "300",
                                        "--device", "noop", "--noop-iteration-us", "50000"}));
  json quick = body_of("Hi");
  quick["max_tokens"] = 1;
  json slow = quick;
  slow["max_tokens"] = 10;
  CHECK(http_post(server.port(), kChat, quick.dump()).status == 200);
  CHECK(http_post(server.port(), kChat, slow.dump(), traceparent("00")).status == 200);
  http_post_and_leave(server.port(), kChat, endless_body().dump(), [](std::string_view raw) {
    return raw.find("\"content\":\"a\"") != std::string_view::npos;
  });
  const auto trees = trees_at_end(server, sink);
  REQUIRE(trees.size() == 2);
  CHECK(trees[0].root.attributes.at("troupe.kept") == "slow");
  CHECK(trees[0].root.trace_id == kTraceId);
  CHECK(trees[0].phase_names() == std::vector<std::string>{"queue", "admit", "prefill", "decode"});
  CHECK(trees[1].root.attributes.at("troupe.kept") == "error");
  CHECK(trees[1].root.attributes.at("error.type") == "cancelled");
  CHECK(iterations_of(sink.spans()).empty());
}

TEST_CASE("tracing: a client that does not read suspends its sequence, and the trace shows it") {
  const OtlpSink sink;
  const ServerProcess server(flags_for(sink, {"--device", "noop"}));
  json body = endless_body();
  body["stream_options"] = {{"continuous_usage_stats", true}, {"include_usage", true}};
  TestClient client(server.port(), 4096);
  REQUIRE(client.send(post_request(kChat, body.dump(), "Connection: close\r\n")));
  CHECK(eventually([&] { return ServerMetrics(server.port()).series("troupe_num_requests_paused") > 0; }));
  client.read_to_end();
  const auto tree = wait_for_trees(sink, 1).front();
  CHECK(tree.root.attributes.at("gen_ai.usage.output_tokens") == 1900);
  CHECK(tree.root.has_event("suspended"));
  CHECK(tree.root.has_event("resumed"));
  CHECK(tree.phase("suspended").end > tree.phase("suspended").start);
  CHECK(tree.phases.back().attributes.at("troupe.run").get<int>() >= 2);
}
