// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/result_file.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "loadgen/result/atomic_file.hpp"
#include "loadgen/result/request_line.hpp"
#include "loadgen/result/result_json.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

RequestRecord some_request() {
  RequestRecord record;
  record.conversation = 12;
  record.turn = 3;
  record.request_class = 1;
  record.intended = milliseconds(1500);
  record.sent = milliseconds(1500) + nanoseconds(7);
  record.first_token = milliseconds(1600);
  record.last_token = milliseconds(1640);
  record.finished = milliseconds(1641);
  record.gaps_us = {20'000, 0, 20'000};
  record.prompt_tokens = 40;
  record.cached_tokens = 32;
  record.output_tokens = 4;
  record.server_queue = microseconds(300);
  record.outcome = Outcome::kCompleted;
  record.status = 200;
  record.is_correct = false;
  return record;
}

RunResult some_run() {
  RunResult result;
  result.name = "poisson-4rps";
  result.is_simulated = true;
  result.settings = {{"server", "a \"b\"\n"}, {"twice", "1"}, {"twice", "2"}};
  result.classes = {
      RequestClass{.name = "chat", .objectives = {milliseconds(200), microseconds(12'345), seconds(4)}},
      RequestClass{.name = "b", .objectives = {}, .ignore_eos = true, .max_tokens = 7}};
  result.offered_rate = 4.25;
  result.duration = seconds(30) + nanoseconds(1);
  result.measured_from = seconds(1);
  result.measured_until = seconds(29);
  RequestRecord failed;
  failed.outcome = Outcome::kBroken;
  failed.error = "the stream ended \xff early";
  result.records = {some_request(), failed};
  result.samples = {{.time = seconds(1),
                     .num_running = 3,
                     .num_waiting = 1,
                     .pages_used = 5,
                     .pages_total = 64,
                     .batch_tokens = 12.5,
                     .generation_tokens = 1234}};
  result.is_beyond_honest_rate = true;
  result.warnings = {"one", "two"};
  return result;
}

std::string error_of(const std::filesystem::path& directory) {
  try {
    read_result(directory);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// What reading says after `key` of the results was given another value.
std::string error_with_result(const char* key, const json& value) {
  const TemporaryDirectory directory;
  const auto run = some_run();
  write_result(directory.path(), run, summarize(run));
  auto results = json::parse(troupe::test::file_text(directory.path() / kResultsFile));
  results[json::json_pointer(key)] = value;
  directory.write(kResultsFile, results.dump());
  return error_of(directory.path());
}

std::string error_with_request(const char* key, const json& value) {
  const TemporaryDirectory directory;
  const auto run = some_run();
  write_result(directory.path(), run, summarize(run));
  std::string line;
  append_request_line(line, some_request());
  auto request = json::parse(line);
  request[key] = value;
  directory.write(kRequestsFile, line + request.dump() + "\n");
  return error_of(directory.path());
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("result_file: what is written is read back") {
  const TemporaryDirectory directory;
  const auto run = some_run();
  write_result(directory.path() / "new" / "place", run, summarize(run));
  CHECK(holds_result(directory.path() / "new" / "place"));
  const auto read = read_result(directory.path() / "new" / "place");
  CHECK(read.name == run.name);
  CHECK(read.is_simulated);
  CHECK(read.settings == run.settings);
  CHECK(read.offered_rate == run.offered_rate);
  CHECK(read.duration == run.duration);
  CHECK(read.measured_from == run.measured_from);
  CHECK(read.measured_until == run.measured_until);
  CHECK(read.is_beyond_honest_rate);
  CHECK(read.warnings == run.warnings);
  REQUIRE(read.classes.size() == 2);
  CHECK(read.classes[0].name == "chat");
  CHECK(read.classes[0].objectives.time_to_first_token == milliseconds(200));
  CHECK(read.classes[0].objectives.time_per_output_token == microseconds(12'345));
  CHECK(read.classes[0].objectives.end_to_end == seconds(4));
  CHECK(read.classes[1].ignore_eos);
  CHECK(read.classes[1].max_tokens == 7);
  REQUIRE(read.samples.size() == 1);
  CHECK(read.samples[0].time == seconds(1));
  CHECK(read.samples[0].batch_tokens == 12.5);
  CHECK(read.samples[0].generation_tokens == 1234);
}

TEST_CASE("result_file: every field of a request is read back") {
  const TemporaryDirectory directory;
  const auto run = some_run();
  write_result(directory.path(), run, summarize(run));
  const auto records = read_result(directory.path()).records;
  REQUIRE(records.size() == 2);
  const auto expected = some_request();
  const auto& read = records[0];
  CHECK(read.conversation == expected.conversation);
  CHECK(read.turn == expected.turn);
  CHECK(read.request_class == expected.request_class);
  CHECK(read.intended == expected.intended);
  CHECK(read.sent == expected.sent);
  CHECK(read.first_token == expected.first_token);
  CHECK(read.last_token == expected.last_token);
  CHECK(read.finished == expected.finished);
  CHECK(read.gaps_us == expected.gaps_us);
  CHECK(read.prompt_tokens == expected.prompt_tokens);
  CHECK(read.cached_tokens == expected.cached_tokens);
  CHECK(read.output_tokens == expected.output_tokens);
  CHECK(read.server_queue == expected.server_queue);
  CHECK(read.outcome == expected.outcome);
  CHECK(read.status == expected.status);
  CHECK(read.is_correct == expected.is_correct);
  CHECK(records[1].outcome == Outcome::kBroken);
  CHECK(records[1].error == "the stream ended \xEF\xBF\xBD early");
  CHECK(records[1].server_queue == std::nullopt);
  CHECK(records[1].is_correct == std::nullopt);
}

TEST_CASE("result_file: names of outcomes and outcomes match") {
  for (std::size_t i = 0; i < kNumOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    CHECK(outcome_from_name(outcome_name(outcome)) == outcome);
  }
  CHECK(outcome_from_name("") == std::nullopt);
}

TEST_CASE("result_file: plot scripts made for vllm's benchmark find their keys") {
  const auto run = some_run();
  const auto results = json::parse(results_json(run, summarize(run)));
  for (const auto* key :
       {"duration", "completed", "failed", "num_prompts", "total_input_tokens", "total_output_tokens",
        "request_throughput", "request_goodput", "output_throughput", "total_token_throughput"})
    CHECK_MESSAGE(results.at(key).is_number(), std::string(key));
  for (const auto* name : {"ttft", "tpot", "itl", "e2el"}) {
    for (const auto* statistic : {"mean_", "median_", "std_", "p99_"})
      CHECK_MESSAGE(results.at(std::string(statistic) + name + "_ms").is_number(), std::string(name));
  }
  CHECK(results["duration"] == 28.0);
  CHECK(results["mean_ttft_ms"] == 100.0);
  const auto empty = json::parse(results_json({}, summarize({})));
  CHECK(empty["mean_ttft_ms"].is_null());
}

TEST_CASE("result_file: what is not there is named") {
  const TemporaryDirectory directory;
  CHECK_FALSE(holds_result(directory.path()));
  check_contains(error_of(directory.path() / "absent"), "absent/results.json: No such file");
  const auto run = some_run();
  write_result(directory.path(), run, summarize(run));
  std::filesystem::remove(directory.path() / kRequestsFile);
  check_contains(error_of(directory.path()), "requests.jsonl: No such file");
}

TEST_CASE("result_file: damaged results are refused with the field's name") {
  const TemporaryDirectory directory;
  directory.write(kResultsFile, "{\"format\":");
  check_contains(error_of(directory.path()), "results.json: this is no JSON");
  directory.write(kResultsFile, "[]");
  check_contains(error_of(directory.path()), "expected an object, got array");
  directory.write(kResultsFile, "{}");
  check_contains(error_of(directory.path()), "'format' is missing");
  check_contains(error_with_result("/format", "other/9"),
                 "expected format 'troupe-loadgen/1', got 'other/9'");
  check_contains(error_with_result("/name", 3), "'name': expected a text, got 3");
  check_contains(error_with_result("/run_duration_s", -1),
                 "'run_duration_s': expected a number from 0, got -1");
  check_contains(error_with_result("/run_duration_s", 1e300), "longer than 100 years");
  check_contains(error_with_result("/settings", json::array({"x"})), "'settings': expected pairs of texts");
  check_contains(error_with_result("/warnings", json::array({1})), "'warnings': expected texts");
  check_contains(error_with_result("/classes/1/max_tokens", -7),
                 "classes[1]: 'max_tokens': expected a whole number");
  check_contains(error_with_result("/samples/0", "x"), "samples[0]: expected an object, got string");
}

TEST_CASE("result_file: damaged requests are refused with the line's number") {
  check_contains(error_with_request("intended_ns", -5),
                 "requests.jsonl:2: 'intended_ns': expected a whole number");
  check_contains(error_with_request("intended_ns", 1.5), "got 1.5");
  check_contains(error_with_request("intended_ns", 18446744073709551615ULL), "from 0 to 9223372036854775807");
  check_contains(error_with_request("outcome", "fine"), "expected one of completed, refused");
  check_contains(error_with_request("outcome", 1), "'outcome': expected a text, got 1");
  check_contains(error_with_request("gaps_us", 7), "'gaps_us': expected a list, got 7");
  check_contains(error_with_request("gaps_us", json::array({1, -1})), "expected microseconds from 0");
  check_contains(error_with_request("status", 70000), "from 0 to 65535, got 70000");
  check_contains(error_with_request("class", 2), "requests.jsonl:2: class 2, but results.json has 2 classes");
  CHECK_THROWS_WITH(parse_request_line("", "f:1"), "f:1: this is no JSON");
  CHECK_THROWS_WITH(parse_request_line("3", "f:1"), "f:1: expected an object, got number");
  CHECK_THROWS_WITH(parse_request_line("{}", "f:1"), "f:1: 'conversation' is missing");
}

TEST_CASE("result_file: long rubbish is cut short in the message") {
  const auto text = error_with_request("turn", std::string(100'000, 'x'));
  CHECK(text.size() < 300);
}

TEST_CASE("atomic_file: without commit the old contents stay and no trace is left") {
  const TemporaryDirectory directory;
  directory.write("file", "old");
  {
    AtomicFile file(directory.path() / "file");
    file.write("new");
  }
  CHECK(troupe::test::file_text(directory.path() / "file") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("atomic_file: a place that cannot be written to is named") {
  const TemporaryDirectory directory;
  directory.write("file", "in the way");
  CHECK_THROWS_WITH(write_file_atomically(directory.path() / "file" / "below", "x"),
                    doctest::Contains("file/below"));
}

}  // namespace
}  // namespace troupe::loadgen
