// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "loadgen/client/run_options.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/workload/toml/table_reader.hpp"
#include "telemetry/cpu_list.hpp"
#include "tests/loadgen/client/scripted_server.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::loadgen;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// A server with one model; every third answer fails if asked to.
class ModelServer {
 public:
  explicit ModelServer(bool fails_sometimes = false)
      : server_([this, fails_sometimes](const ScriptedExchange& request, std::size_t) {
          if (request.head.starts_with("GET /v1/models "))
            return whole_response("200 OK", R"({"data":[{"id":"m"}]})");
          if (request.head.starts_with("GET ")) return whole_response("404 Not Found", "");
          if (request.body.find("\"stream\":false") != std::string::npos) return probe_answer(request);
          if (fails_sometimes && ++num_asked_ % 3 == 0)
            return whole_response("500 Internal Server Error", "oops");
          return streamed_answer({1ms, 1ms});
        }) {}

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

 private:
  // Two tokens for each blank.
  static ScriptedAnswer probe_answer(const ScriptedExchange& request) {
    const auto blanks = std::count(request.body.begin(), request.body.end(), ' ');
    return whole_response("200 OK", R"({"choices":[{"message":{"content":"x"},"finish_reason":"length"}],)"
                                    R"("usage":{"prompt_tokens":)" +
                                        std::to_string(2 * blanks) + "}}");
  }

  std::size_t num_asked_ = 0;
  ScriptedServer server_;
};

int run_with(const ModelServer& server, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--url",           server.url(), "--prompt-tokens", "8",
                                        "--output-tokens", "2",          "--no-calibrate"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command(arguments);
}

RunOptions options_of(const std::string& text) {
  RunOptions options;
  read_run_options(toml::parse(text, std::string_view("file.toml")), options);
  return options;
}

}  // namespace

TEST_CASE("run command: a run leaves its result, with all that is needed to repeat it") {
  const ModelServer server;
  const TemporaryDirectory folder;
  const auto out = (folder.path() / "out").string();
  CHECK(run_with(server, {"--rate", "200", "--conversations", "10", "--seed", "7", "--out", out}) ==
        kSuccess);
  const auto result = read_result(out);
  CHECK(result.records.size() == 10);
  CHECK(setting(result, "server") == server.url());
  CHECK(setting(result, "model") == "m");
  CHECK(setting(result, "seed") == "7");
  CHECK(setting(result, "arrivals") == "Poisson, 200/s");
  CHECK(setting(result, "tokens per word") == "2");
  CHECK(result.offered_rate == 200);
  CHECK(result.samples.empty());  // this server has no /metrics
}

TEST_CASE("run command: a closed loop ends with its duration") {
  const ModelServer server;
  const TemporaryDirectory folder;
  const auto out = (folder.path() / "out").string();
  CHECK(run_with(server, {"--users", "2", "--duration", "0.1", "--out", out}) == kSuccess);
  const auto result = read_result(out);
  CHECK(result.records.size() >= 2);
  CHECK(result.measured_until == 100ms);
  CHECK(setting(result, "users") == "2");
}

TEST_CASE("run command: more failures than allowed have their own status, and keep the result") {
  const ModelServer server(true);
  CHECK(run_with(server, {"--rate", "200", "--conversations", "9"}) == kTooManyErrors);
  CHECK(run_with(server, {"--rate", "200", "--conversations", "9", "--max-error-share", "0.5"}) == kSuccess);
}

TEST_CASE("run command: the highest rate is found, or that there is none, and each trial is kept") {
  const TemporaryDirectory folder;
  const std::vector<std::string> search = {
      "--find-rate", "--conversations", "3",     "--precision",         "1",
      "--objective", "e2e_p99=60s",     "--out", folder.path().string()};
  auto with_rate = [&](const char* rate) {
    auto arguments = search;
    arguments.insert(arguments.end(), {"--rate", rate});
    return arguments;
  };
  const ModelServer fast;
  CHECK(run_with(fast, with_rate("100")) == kSuccess);
  CHECK(read_result(folder.path() / "rate-100").offered_rate == 100);
  CHECK(read_result(folder.path() / "rate-200").offered_rate == 200);
  // Prompts that a server has cached of the trial before would make it faster.
  CHECK(setting(read_result(folder.path() / "rate-100"), "seed") == "1");
  CHECK(setting(read_result(folder.path() / "rate-200"), "seed") == "2");
  // A third of what is asked fails, so no percentile of it has an end.
  const ModelServer failing(true);
  CHECK(run_with(failing, with_rate("51200")) == kTooManyErrors);
}

TEST_CASE("run command: a search whose server goes away ends with status 3") {
  std::size_t num_answers = 0;
  ScriptedServer server([&](const ScriptedExchange& request, std::size_t) {
    if (request.head.starts_with("GET /v1/models "))
      return whole_response("200 OK", R"({"data":[{"id":"m"}]})");
    if (request.head.starts_with("GET ")) return whole_response("404 Not Found", "");
    auto answer = ++num_answers <= 4 ? streamed_answer({1ms, 1ms}) : ScriptedAnswer{};
    if (answer.steps.empty()) answer.end = ScriptedAnswer::End::kReset;
    return answer;
  });
  CHECK(run_command({"--url", "http://127.0.0.1:" + std::to_string(server.port()), "--prompt-tokens", "8",
                     "--output-tokens", "2", "--no-calibrate", "--find-rate", "--conversations", "30",
                     "--objective", "e2e_p99=60s", "--rate", "1000"}) == kServerUnreachable);
}

TEST_CASE("run command: a server that is not there is status 3, and nothing is written") {
  std::string url;
  {
    const ModelServer gone;
    url = gone.url();
  }
  const TemporaryDirectory folder;
  const auto out = folder.path() / "out";
  CHECK(run_command({"--url", url, "--preset", "chat", "--out", out.string()}) == kServerUnreachable);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("run command: wrong command lines are refused before anything is sent") {
  const ModelServer server;
  const auto refuses = [](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), "run");
    CHECK(run_command_line(arguments) == kUsageError);
    arguments.erase(arguments.begin());
    if (!why.empty()) CHECK_THROWS_WITH(run_command(arguments), doctest::Contains(why.c_str()));
  };
  refuses({"--nonsense"}, "");
  refuses({"--rate", "fast"}, "");
  refuses({}, "what is to be sent?");
  refuses({"--preset", "chat", "--workload", "x.toml"}, "exclude each other");
  refuses({"--preset", "chat", "--rate", "1", "--users", "1"}, "exclude each other");
  refuses({"--preset", "chad"}, "expected one of chat");
  refuses({"--preset", "chat", "--rate", "0"}, "expected a number above 0, got 0");
  refuses({"--preset", "chat", "--endpoint", "rerank"},
          "expected chat, completions, responses, embeddings or classify");
  refuses({"--preset", "chat", "--url", "localhost"}, "expected a URL");
  refuses({"--preset", "chat", "--warmup", "-1"}, "run.warmup_s");
  refuses({"--preset", "chat", "--find-rate"}, "--find-rate and --objective need each other");
  refuses({"--preset", "chat", "--objective", "ttft_p99=1s"}, "--find-rate and --objective need each other");
  refuses({"--preset", "chat", "--find-rate", "--objective", "ttft=1s"}, "objective: expected ttft");
  refuses({"--prompt-tokens", "8", "--users", "1", "--find-rate", "--objective", "ttft_p99=1s"},
          "expected arrivals with a rate");
  refuses({"--preset", "chat", "--percentiles", "some"}, "run.percentiles: expected all or completed");
  refuses({"--preset", "chat", "--duration", "10", "--warmup", "6", "--cooldown", "4"},
          "less than the duration of 10 s");
  refuses({"--workload", "/no/such/file.toml"}, "/no/such/file.toml: can't be read: No such file");
  refuses({"--url", server.url(), "--preset", "chat", "--model", "n"}, "has no model 'n', only 'm'");
}

TEST_CASE("run command: a file's [run] is obeyed, flags go before it") {
  const ModelServer server;
  const TemporaryDirectory folder;
  const auto file = folder.write("w.toml",
                                 "[run]\nurl = \"http://127.0.0.1:1\"\nseed = 9\ncalibrates = false\n"
                                 "[workload]\nmax_conversations = 3\n[arrivals]\nkind = \"constant\"\n"
                                 "rate = 100\n[[class]]\nprompt_tokens = 4\noutput_tokens = 2\n");
  const auto out = (folder.path() / "out").string();
  CHECK(run_command({"--workload", file}) == kServerUnreachable);
  CHECK(run_command({"--workload", file, "--url", server.url(), "--rate", "500", "--out", out}) == kSuccess);
  const auto result = read_result(out);
  CHECK(result.records.size() == 3);
  CHECK(setting(result, "seed") == "9");
  CHECK(setting(result, "arrivals") == "constant gaps, 500/s");
}

TEST_CASE("run options: keys that nobody knows and wrong types are named with their line") {
  CHECK(options_of("[run]\nwarmup_s = 2.5\nstreams = false\n").warmup_s == 2.5);
  CHECK_THROWS_WITH(options_of("[run]\nwarm_up_s = 1\n"), doctest::Contains("warmup_s"));
  CHECK_THROWS_WITH(options_of("[run]\nwarm_up_s = 1\n"), doctest::Contains("file.toml:2"));
  CHECK_THROWS_WITH(options_of("[run]\nseed = \"x\"\n"), doctest::Contains("run.seed"));
  CHECK_THROWS_WITH(options_of("run = 1\n"), doctest::Contains("expected a table [run]"));
  RunOptions ids;
  ids.first_prompt_id = 9;
  ids.end_prompt_id = 9;
  CHECK_THROWS_WITH(live_settings(ids, {}), doctest::Contains("run.first_prompt_id"));
}

TEST_CASE("toml file: what can't be read or parsed is named with its line") {
  const TemporaryDirectory folder;
  CHECK_THROWS_WITH(parse_toml_file(folder.path()), doctest::Contains("can't be read"));
  CHECK_THROWS_WITH(parse_toml_file(folder.write("x.toml", "a = 1\nb = \n")), doctest::Contains("x.toml:2"));
}

TEST_CASE("run command: the generator runs on the CPUs it is told, and is free of them afterwards") {
  const ModelServer server;
  const auto before = troupe::cpus_of_thread();
  RunOptions options =
      options_of("[run]\ncpus = \"" + std::to_string(before.back()) + "\"\ncalibrates = false\n");
  options.url = server.url();
  WorkloadSettings workload;
  workload.max_conversations = 20;
  workload.arrivals.kind = ArrivalSettings::Kind::kConstant;
  set_mean_rate(workload.arrivals, 200);
  auto settings = live_settings(options, workload);
  settings.load.status_period = 1ms;
  std::vector<std::int32_t> during;
  const auto run = run_live(settings, [&](const LiveStatus&) { during = troupe::cpus_of_thread(); });
  CHECK(during == std::vector{before.back()});
  CHECK(troupe::cpus_of_thread() == before);
  CHECK(setting(run.result, "generator on cpus") == std::to_string(before.back()));
}

TEST_CASE("run command: a tokenizer is read from its file or its directory, and goes with words only") {
  RunOptions options;
  options.tokenizer = TROUPE_SOURCE_DIR "/models/demo/tokenizer.json";
  CHECK(live_settings(options, {}).tokenizer != nullptr);
  options.tokenizer = TROUPE_SOURCE_DIR "/models/demo";
  CHECK(live_settings(options, {}).tokenizer != nullptr);
  options.end_prompt_id = 100;
  CHECK_THROWS_WITH(live_settings(options, {}),
                    doctest::Contains("run.tokenizer: expected none where prompts are token ids"));
  options.end_prompt_id = 0;
  options.tokenizer = "/nowhere";
  CHECK_THROWS_WITH(live_settings(options, {}), doctest::Contains("/nowhere/tokenizer.json"));
}

TEST_CASE("run command: what is no list of CPUs is refused") {
  const ModelServer server;
  CHECK_THROWS_WITH(run_with(server, {"--cpus", "1-"}),
                    "run.cpus: expected numbers of CPUs such as 0-2,5, got '1-'");
}
