// SPDX-License-Identifier: Apache-2.0
// The load generator against the running server with the demo model.
#include "loadgen/client/live_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "loadgen/result/summary.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::loadgen;
using namespace std::chrono_literals;
using DemoServer = troupe::test::ServerProcess;
using troupe::test::TemporaryFile;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";
const std::vector<std::string> kFlags = {"--model", kDemoModel, "--log-level",
                                         "warning", "--memory", "512MiB"};

LiveRunSettings settings_for(const DemoServer& server, const WorkloadSettings& workload) {
  LiveRunSettings settings;
  settings.load.client.server.port = server.port();
  settings.workload = workload;
  settings.sample_period = 20ms;
  settings.calibrates = false;
  return settings;
}

WorkloadSettings questions(const std::string& file, std::uint64_t count) {
  auto workload = preset("questions");
  workload.classes.front().questions_file = file;
  workload.arrivals.kind = ArrivalSettings::Kind::kClosed;
  workload.arrivals.users = 4;
  workload.max_conversations = count;
  return workload;
}

WorkloadSettings fixed_lengths(std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
  auto workload = preset("fixed-128-128");
  workload.classes.front().prompt_tokens = fixed(prompt_tokens);
  workload.classes.front().output_tokens = fixed(output_tokens);
  workload.arrivals.rate = 100;
  workload.max_conversations = 20;
  return workload;
}

}  // namespace

TEST_CASE("loadgen end to end: the demo model's answers are verified, and few are wrong") {
  const DemoServer server(kFlags);
  const auto run = run_live(settings_for(server, questions(kDemoModel + "/held_out_questions.json", 60)), {});
  const auto total = summarize(run.result).total;
  CHECK(total.num_requests >= 60);
  CHECK(total.num_failed() == 0);
  CHECK(total.num_checked >= 60);
  MESSAGE(total.num_wrong << " of " << total.num_checked << " answers wrong");
  CHECK(total.num_wrong * 10 <= total.num_checked);
  CHECK(total.output_tokens > total.num_requests);
  CHECK(setting(run.result, "model") == "demo");
  REQUIRE_FALSE(run.result.samples.empty());
  CHECK(run.result.samples.back().generation_tokens > 0);
  CHECK(std::any_of(run.result.samples.begin(), run.result.samples.end(),
                    [](const auto& sample) { return sample.pages_used > 0 && sample.num_running > 0; }));
}

TEST_CASE("loadgen end to end: wrong answers are counted as wrong, not as failed") {
  const DemoServer server(kFlags);
  const TemporaryFile file(
      R"([{"category":"c","messages":[{"role":"user","content":"Count from 3 to 7."}],"expected":"3, 4, 5, 6, 7"},)"
      R"({"category":"c","messages":[{"role":"user","content":"Count from 3 to 7."}],"expected":"seven"}])");
  const auto run = run_live(settings_for(server, questions(file.path().string(), 20)), {});
  const auto total = summarize(run.result).total;
  CHECK(total.num_completed == 20);
  CHECK(total.num_checked == 20);
  CHECK(total.num_wrong > 0);
  CHECK(total.num_wrong < 20);
}

TEST_CASE("loadgen end to end: lengths are exact, in words, by the server's tokenizer") {
  const DemoServer server(kFlags);
  auto settings = settings_for(server, fixed_lengths(50, 12));
  settings.load.endpoint = Endpoint::kCompletions;
  settings.tokenizer = troupe::load_tokenizer(kDemoModel);
  const auto run = run_live(settings, {});
  REQUIRE(run.result.records.size() == 20);
  const auto first = settings.tokenizer->prefix_tokens().size();
  for (const auto& record : run.result.records) CHECK(record.prompt_tokens == 50 + first);
}

TEST_CASE("loadgen end to end: lengths are exact, in tokens, when asked for as ids") {
  const DemoServer server(kFlags);
  auto settings = settings_for(server, fixed_lengths(50, 12));
  settings.load.endpoint = Endpoint::kCompletions;
  settings.prompt_ids = TokenRange{.first = 100, .end = 200};
  const auto run = run_live(settings, {});
  REQUIRE(run.result.records.size() == 20);
  for (const auto& record : run.result.records) {
    CHECK_MESSAGE(record.outcome == Outcome::kCompleted, record.error);
    CHECK(record.output_tokens == 12);
    CHECK(record.prompt_tokens == 50);
  }
}

TEST_CASE("loadgen end to end: words are as many tokens as planned, within a quarter") {
  const DemoServer server(kFlags);
  auto workload = fixed_lengths(60, 4);
  workload.classes.front().prefix = {.count = 1, .tokens = 128, .zipf_exponent = 0};
  workload.arrivals.kind = ArrivalSettings::Kind::kClosed;  // one after the other
  const auto run = run_live(settings_for(server, workload), {});
  const auto total = summarize(run.result).total;
  CHECK(total.num_completed == 20);
  const double mean = static_cast<double>(total.prompt_tokens) / 20;
  MESSAGE("planned 188 tokens and a template, sent " << mean << "; cached share " << total.cached_share());
  CHECK(mean > 0.75 * 188);
  CHECK(mean < 1.25 * 188 + 32);
  CHECK(total.cached_share() > 0.3);  // the shared prefix, from the second request on
}

TEST_CASE("loadgen end to end: the server killed in mid-run leaves partial results and a clear message") {
  DemoServer server(kFlags);
  auto workload = fixed_lengths(20, 50);
  workload.max_conversations = 100'000;
  workload.arrivals.rate = 200;
  auto settings = settings_for(server, workload);
  settings.load.status_period = 100ms;
  const auto run = run_live(settings, [&](const LiveStatus& status) {
    if (status.num_completed > 10) server.signal(SIGKILL);
  });
  CHECK(run.was_given_up);
  const auto& records = run.result.records;
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const auto& r) { return r.outcome == Outcome::kCompleted; }) > 10);
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const auto& r) { return r.outcome == Outcome::kUnreachable; }) >= 20);
  CHECK(std::any_of(run.result.warnings.begin(), run.result.warnings.end(), [](const auto& warning) {
    return warning.starts_with("given up: 20 requests in a row");
  }));
}

TEST_CASE("loadgen end to end: a server that refuses by overload is refused, not failed otherwise") {
  auto flags = kFlags;
  flags.insert(flags.end(), {"--max-waiting", "1", "--max-batch-sequences", "1"});
  const DemoServer server(flags);
  auto workload = fixed_lengths(20, 100);
  workload.arrivals.kind = ArrivalSettings::Kind::kAtOnce;
  const auto run = run_live(settings_for(server, workload), {});
  const auto total = summarize(run.result).total;
  const auto refused = total.num_by_outcome[static_cast<std::size_t>(Outcome::kRefused)];
  CHECK(refused > 0);
  CHECK(refused + total.num_completed == 20);
}
