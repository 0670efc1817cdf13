// SPDX-License-Identifier: Apache-2.0
// `troupe trace` over files of real runs and over files that are none.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/otlp_sink.hpp"
#include "tests/support/observability/trace_tree.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

CommandResult trace(const std::string& file, const std::string& out = "") {
  std::vector<std::string> arguments = {TROUPE_BINARY, "trace", file};
  if (!out.empty()) arguments.insert(arguments.end(), {"--out", out});
  return run_command(arguments);
}

// Twelve requests, up to four at once, on the demo model.
void record_run(const std::string& file) {
  ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--log-level", "error", "--memory",
                        "64MiB", "--trace-file", file, "--trace-max-iterations-per-second", "100000"});
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&server, i] {
      for (int j = 0; j < 3; ++j) {
        const json body = {{"model", "demo"},
                           {"messages", user_asks("Count from " + std::to_string(i) + " to 30.")},
                           {"max_tokens", 40}};
        CHECK(http_post(server.port(), "/v1/chat/completions", body.dump()).status == 200);
      }
    });
  for (auto& client : clients) client.join();
  server.signal(SIGTERM);
  REQUIRE(server.wait() == 0);
}

struct Slice {
  std::string name;
  std::int64_t start, end;  // nanoseconds
};

// Times are microseconds with three digits after the point.
std::int64_t nanoseconds(const json& microseconds) {
  return static_cast<std::int64_t>(std::llround(microseconds.get<double>() * 1000));
}

// What the format asks for (Chrome's Trace Event Format), and that slices of a
// track nest; the slices by group and track.
std::map<std::pair<int, int>, std::vector<Slice>> check_format(const json& timeline) {
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  std::map<std::string, int> open_arrows;
  for (const auto& event : timeline.at("traceEvents")) {
    const std::string phase = event.at("ph");
    REQUIRE(std::set<std::string>{"M", "X", "i", "s", "f", "C"}.contains(phase));
    REQUIRE(event.at("name").is_string());
    const std::pair track(event.at("pid").get<int>(), event.at("tid").get<int>());
    if (phase == "M") {
      CHECK(event.at("args").at("name").is_string());
      continue;
    }
    CHECK(event.at("ts").get<double>() >= 0);
    if (phase == "X") {
      const auto start = nanoseconds(event.at("ts"));
      tracks[track].push_back({event.at("name"), start, start + nanoseconds(event.at("dur"))});
    }
    if (phase == "C") CHECK(event.at("args").at("value").is_number());
    if (phase == "s") open_arrows[event.at("id").dump()] += 1;
    if (phase == "f") {
      CHECK(event.at("bp") == "e");
      CHECK(open_arrows[event.at("id").dump()]-- == 1);
    }
  }
  for (const auto& [id, count] : open_arrows) CHECK(count == 0);
  for (auto& [track, slices] : tracks) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<Slice> open;
    for (const auto& slice : slices) {
      while (!open.empty() && open.back().end <= slice.start) open.pop_back();
      if (!open.empty()) CHECK(slice.end <= open.back().end);
      open.push_back(slice);
    }
  }
  return tracks;
}

const std::string kSpan =
    R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"chat x","kind":2,)"
    R"("startTimeUnixNano":"1000","endTimeUnixNano":"2000"})";

std::string line_of(const std::string& span) {
  return R"({"resourceSpans":[{"scopeSpans":[{"spans":[)" + span + "]}]}]}\n";
}

}  // namespace

TEST_CASE("trace command: a run becomes a summary and a timeline of lanes, workers, arrows and counters") {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.jsonl").string();
  record_run(file);
  const auto trees = trees_of(read_spans(file));
  REQUIRE(trees.size() == 12);
  const auto result = trace(file, (folder.path() / "timeline.json").string());
  REQUIRE(result.exit_status == 0);
  CHECK(result.output.find("12 requests (12 well)") != std::string::npos);
  const auto slowest = std::max_element(trees.begin(), trees.end(), [](const auto& a, const auto& b) {
    return a.root.end - a.root.start < b.root.end - b.root.start;
  });
  CHECK(result.output.find(slowest->root.trace_id) != std::string::npos);

  std::ifstream stream((folder.path() / "timeline.json").string());
  const json timeline = json::parse(stream);
  const auto tracks = check_format(timeline);
  std::size_t num_requests = 0;
  std::size_t num_lanes = 0;
  for (const auto& [track, slices] : tracks) {
    num_lanes += track.first == 2 ? 1 : 0;
    for (const auto& slice : slices) num_requests += slice.name == "chat demo" ? 1 : 0;
  }
  CHECK(num_requests == 12);
  CHECK(num_lanes >= 1);
  CHECK(num_lanes <= 4);  // no more than were under way at once
  REQUIRE(tracks.contains({1, 1}));
  CHECK(tracks.at({1, 1}).size() == iterations_of(read_spans(file)).size());
  std::map<std::string, int> counters;
  std::size_t num_arrows = 0;
  for (const auto& event : timeline.at("traceEvents")) {
    if (event.at("ph") == "C") counters[event.at("name")] += 1;
    if (event.at("ph") == "s") ++num_arrows;
  }
  CHECK(counters.size() == 3);
  CHECK(num_arrows >= 12 * 40 / 2);
}

TEST_CASE("trace command: a last line that was cut off is a warning, any other is named") {
  const TemporaryDirectory folder;
  const auto cut = trace(folder.write("cut.jsonl", line_of(kSpan) + R"({"resourceSpans":[{"sco)"));
  CHECK(cut.exit_status == 0);
  CHECK(cut.output.find("cut.jsonl:2: the last line is cut off and left out") != std::string::npos);
  CHECK(cut.output.find("1 requests") != std::string::npos);
  const auto spoiled = trace(folder.write("spoiled.jsonl", line_of(kSpan) + "{\"resour\n" + line_of(kSpan)));
  CHECK(spoiled.exit_status == 1);
  CHECK(spoiled.output.find("spoiled.jsonl:2: expected a line of JSON") != std::string::npos);
}

TEST_CASE("trace command: what is no trace is refused with its line, what was expected and what came") {
  const TemporaryDirectory folder;
  const auto with = [](std::string from, const std::string& to) {
    std::string span = kSpan;
    span.replace(span.find(from), from.size(), to);
    return line_of(span);
  };
  struct Case {
    std::string text, says;
  };
  const std::vector<Case> cases = {
      {std::string(100'000, '[') + std::string(100'000, ']'), ":1: expected JSON of at most 64 levels"},
      {"[]\n", ":1: expected an OTLP export request with resourceSpans, got []"},
      {"\n{\"resourceSpans\":7}\n", ":2: resourceSpans: expected a list, got 7"},
      {"{\"resourceSpans\":[7]}\n", ":1: expected an object, got 7"},
      {with("\"1000\"", "\"soon\""),
       ":1: startTimeUnixNano: expected nanoseconds since 1970 as a string, got \"soon\""},
      {with("\"1000\"", "\"-5\""), ":1: startTimeUnixNano: expected nanoseconds since 1970"},
      {with("\"1000\"", "\"99999999999999999999\""),
       ":1: startTimeUnixNano: expected nanoseconds since 1970"},
      {with("\"1000\"", "\"3000\""), ":1: the span b7ad6b7169203331 ends before it begins"},
      {with("\"b7ad6b7169203331\"", "\"b7ad\""), ":1: spanId: expected 16 hex digits, got \"b7ad\""},
      {with("\"b7ad6b7169203331\"", "\"\""), ":1: a span needs a traceId and a spanId"},
      {with("\"chat x\"", "[[[[]]]]"), ":1: name: expected a string, got [[[[]]]]"},
      {std::string(100'000, '['), ":1: expected JSON of at most 64 levels"},
  };
  for (const auto& wrong : cases) {
    CAPTURE(wrong.text.substr(0, 200));
    const auto result = trace(folder.write("wrong.jsonl", wrong.text));
    CHECK(result.exit_status == 1);
    CHECK(result.output.find(wrong.says) != std::string::npos);
  }
  CHECK(trace((folder.path() / "absent.jsonl").string())
            .output.find("absent.jsonl: can't be read: No such file") != std::string::npos);
  CHECK(trace((folder.path() / "").string()).exit_status == 1);
  CHECK(trace(folder.write("good.jsonl", line_of(kSpan)), "/nowhere/timeline.json").exit_status == 1);
}

TEST_CASE("trace command: a file without spans, and names that would break out of the JSON, are fine") {
  const TemporaryDirectory folder;
  CHECK(trace(folder.write("empty.jsonl", "")).output.find("0 requests, no iterations") != std::string::npos);
  std::string span = kSpan;
  span.replace(span.find("chat x"), 6, R"(\"},{\"ph\":\"\u001b[31m)");
  const auto result =
      trace(folder.write("hostile.jsonl", line_of(span)), (folder.path() / "timeline.json").string());
  CHECK(result.exit_status == 0);
  std::ifstream stream((folder.path() / "timeline.json").string());
  check_format(json::parse(stream));
}
