// SPDX-License-Identifier: Apache-2.0
// The load generator against the running server with the demo model.
#include "loadgen/client/live_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "loadgen/client/run_options.hpp"
#include "loadgen/result/summary.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"

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

// As `troupe-loadgen run --endpoint …` makes the run; prompts have exact lengths by the model's tokenizer.
LiveRun run_at(const DemoServer& server, const char* endpoint, const std::string& tokenizer,
               const WorkloadSettings& workload) {
  RunOptions options;
  options.url = "http://127.0.0.1:" + std::to_string(server.port());
  options.endpoint = endpoint;
  options.tokenizer = tokenizer;
  options.metrics_period_s = 0;
  options.calibrates = false;
  return run_live(live_settings(options, workload), {});
}

// Of a few users' conversations of so many turns.
WorkloadSettings dialogues(std::uint32_t num_turns) {
  auto workload = fixed_lengths(24, 12);
  workload.classes.front().num_turns = fixed(num_turns);
  workload.arrivals.kind = ArrivalSettings::Kind::kClosed;
  workload.arrivals.users = 4;
  workload.max_conversations = 10;
  return workload;
}

// The prompts' tokens of one turn, which are as many in each conversation.
std::uint32_t prompt_tokens_of_turn(const LiveRun& run, std::uint32_t turn) {
  std::vector<std::uint32_t> counts;
  for (const auto& record : run.result.records)
    if (record.turn == turn) counts.push_back(record.prompt_tokens);
  REQUIRE(counts.size() == 10);
  CHECK(std::count(counts.begin(), counts.end(), counts.front()) == 10);
  return counts.front();
}

}  // namespace

TEST_CASE("loadgen end to end: responses are answered turn by turn, with the server's counts of tokens") {
  const troupe::test::TemporaryDirectory directory;
  auto flags = kFlags;
  flags.insert(flags.end(), {"--store-directory", directory.path().string()});
  const DemoServer server(flags);
  const auto chats = run_at(server, "chat", kDemoModel, dialogues(1));
  const troupe::test::ServerMetrics before(server.port());
  const auto run = run_at(server, "responses", kDemoModel, dialogues(3));
  const auto metrics = troupe::test::metrics_when_idle(server.port());
  const auto total = summarize(run.result).total;
  CHECK(total.num_requests == 30);
  CHECK(total.num_completed == 30);
  CHECK(total.output_tokens == 30 * 12);
  CHECK(setting(run.result, "endpoint") == "/v1/responses");
  for (const auto& record : run.result.records) {
    CHECK_MESSAGE(record.outcome == Outcome::kCompleted, record.error);
    CHECK(record.output_tokens == 12);
    CHECK(record.first_token.count() > 0);
  }
  // A first question is templated as a chat's; a later one comes behind the turns before it, of which the
  // client has sent but an id.
  const auto first = prompt_tokens_of_turn(run, 0), second = prompt_tokens_of_turn(run, 1);
  CHECK(first == prompt_tokens_of_turn(chats, 0));
  CHECK(second >= first + 12 + 24);
  CHECK(prompt_tokens_of_turn(run, 2) == second + (second - first));
  const auto counted = [&](const char* name) { return metrics.sum(name) - before.sum(name); };
  CHECK(counted("troupe_prompt_tokens_total") == static_cast<double>(total.prompt_tokens));
  CHECK(counted("troupe_generation_tokens_total") == static_cast<double>(total.output_tokens));
  CHECK(counted("troupe_responses_stored_total") == 30);
}

TEST_CASE("loadgen end to end: embeddings are answered, each with the tokens of its text") {
  const troupe::test::TemporaryDirectory directory;
  const auto model = directory.path() / "embedder";
  troupe::test::write_small_embedder(model);
  const DemoServer server(
      {"--model", model.string(), "--device", "cpu", "--memory", "256MiB", "--log-level", "warning"});
  auto workload = fixed_lengths(40, 1);
  workload.classes.front().prompt_tokens = uniform(4, 60);
  const auto run = run_at(server, "embeddings", model.string(), workload);
  const troupe::test::ServerMetrics metrics(server.port());
  const auto total = summarize(run.result).total;
  CHECK(total.num_requests == 20);
  CHECK(total.num_completed == 20);
  CHECK(total.output_tokens == 0);
  CHECK(setting(run.result, "model") == "embedder");
  CHECK(setting(run.result, "endpoint") == "/v1/embeddings");
  for (const auto& record : run.result.records)
    CHECK_MESSAGE(record.outcome == Outcome::kCompleted, record.error);
  const auto source = make_source(workload, 1);
  std::uint64_t planned = 0;
  for (PlannedConversation conversation; source->next(conversation);)
    planned += conversation.turns.front().prompt_tokens + 2;
  CHECK(total.prompt_tokens == planned);  // [CLS] and [SEP] besides
  CHECK(metrics.sum("troupe_encoder_inputs_total") == 20);
  CHECK(metrics.sum("troupe_encoder_tokens_total") == static_cast<double>(planned));
}

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
