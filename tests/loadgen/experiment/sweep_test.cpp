// SPDX-License-Identifier: Apache-2.0
// The real binary is started, on the noop device.
#include "loadgen/experiment/sweep.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "app/costs/profile_json.hpp"
#include "loadgen/experiment/serving_flags.hpp"
#include "loadgen/result/result_file.hpp"
#include "tests/loadgen/client/scripted_server.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen {
namespace {

namespace fs = std::filesystem;
using namespace troupe::test;

constexpr const char* kExperiment = R"(
[experiment]
name = "small"
rates = [100]
seeds = [1, 2]

[[server]]
name = "one at a time"
flags = ["--device", "noop", "--model", "{root}/models/demo", "--max-batch-sequences", "1"]

[[server]]
name = "broken"
argv = ["/bin/false", "{port}"]

[run]
calibrates = false

[workload]
max_conversations = 20

[[class]]
prompt_tokens = 8
output_tokens = 4
ignore_eos = true
)";

// An experiment in a directory of its own.
class Place {
 public:
  explicit Place(const std::string& text = kExperiment) { directory_.write("e.toml", text); }

  SweepSettings settings() const {
    SweepSettings settings;
    settings.file = directory_.path() / "e.toml";
    settings.out = out();
    settings.troupe = TROUPE_BINARY;
    settings.root = TROUPE_SOURCE_DIR;
    return settings;
  }
  SweepOutcome run(const SweepSettings& settings) const {
    std::FILE* progress = std::fopen((directory_.path() / "progress").c_str(), "w");
    struct Closer {
      std::FILE* file;
      ~Closer() { std::fclose(file); }
    } closer{progress};
    return run_sweep(read_experiment(settings.file), settings, progress);
  }
  fs::path out() const { return directory_.path() / "out"; }
  fs::path cell(const char* name) const { return out() / "cells" / name; }
  void write(const std::string& name, const std::string& text) const { directory_.write(name, text); }

 private:
  TemporaryDirectory directory_;
};

// A profile of the server that the experiment names.
CostProfile noop_profile() {
  CostProfile profile = plain_profile();
  profile.flags = {{.name = "--device", .value = "noop"},
                   {.name = "--model", .value = "demo", .is_default = true},
                   {.name = "--memory", .value = "0", .is_default = true},
                   {.name = "--workers", .value = "1", .is_default = true},
                   {.name = "--pin-threads", .value = "true", .is_default = true}};
  return profile;
}

TEST_CASE("sweep: a server that fails is recorded, the others run and are reported") {
  const Place place;
  const auto outcome = place.run(place.settings());
  CHECK(outcome.num_run == 2);
  REQUIRE(outcome.failures.size() == 2);
  CHECK(outcome.failures[0].starts_with("002-broken-100-seed1: "));
  CHECK(fs::exists(place.cell("002-broken-100-seed1") / "failure.txt"));
  CHECK(fs::exists(place.cell("001-one-at-a-time-100-seed1") / "server.log"));

  const auto result = read_result(place.cell("003-one-at-a-time-100-seed2"));
  CHECK(result.records.size() == 20);
  CHECK(std::all_of(result.records.begin(), result.records.end(), [](const auto& record) {
    return record.outcome == Outcome::kCompleted && record.output_tokens == 4;
  }));
  CHECK(setting(result, "server") == "one at a time");
  CHECK(setting(result, "seed") == "2");
  CHECK(setting(result, "experiment") == "small");
  CHECK(result.offered_rate == 100);

  const auto csv = file_text(place.out() / "summary.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  const auto report = file_text(place.out() / "report.html");
  CHECK(report.find("A run failed. 002-broken-100-seed1") != std::string::npos);
  CHECK(report.find("<h1>small</h1>") != std::string::npos);
}

TEST_CASE("sweep: resumed, it runs only what has no result") {
  const Place place;
  auto settings = place.settings();
  settings.only = "one at a time";
  CHECK(place.run(settings).num_run == 2);
  fs::remove(place.cell("001-one-at-a-time-100-seed1") / kResultsFile);
  const auto kept = file_text(place.cell("003-one-at-a-time-100-seed2") / kResultsFile);
  settings.resumes = true;
  const auto outcome = place.run(settings);
  CHECK(outcome.num_run == 1);
  CHECK(outcome.num_skipped == 1);
  CHECK(outcome.failures.empty());
  CHECK(file_text(place.cell("003-one-at-a-time-100-seed2") / kResultsFile) == kept);
  const auto csv = file_text(place.out() / "summary.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
}

TEST_CASE("sweep: results of two experiments are not mixed") {
  const Place place;
  auto settings = place.settings();
  fs::create_directories(place.out());
  std::ofstream(place.out() / "experiment.toml") << "another";
  CHECK_THROWS_WITH(place.run(settings),
                    doctest::Contains("holds a sweep already; --resume goes on with it"));
  settings.resumes = true;
  CHECK_THROWS_WITH(place.run(settings), doctest::Contains("holds a sweep of another experiment.toml"));
}

TEST_CASE("sweep: an unknown server is refused with the nearest one") {
  const Place place;
  auto settings = place.settings();
  settings.only = "brocken";
  CHECK_THROWS_WITH(place.run(settings), "no server is called 'brocken'; did you mean 'broken'?");
}

TEST_CASE("sweep: with a profile each run is simulated too, and stands beside the live one") {
  const Place place;
  auto settings = place.settings();
  settings.only = "one at a time";
  settings.profile = place.out().parent_path() / "profile.json";
  place.write("profile.json", profile_json(noop_profile(), {}));
  CHECK(place.run(settings).num_run == 4);
  const auto result = read_result(place.cell("001-one-at-a-time-100-seed1-simulated"));
  CHECK(result.is_simulated);
  CHECK(result.records.size() == 20);
  CHECK(setting(result, "server") == "one at a time");
  CHECK(file_text(place.out() / "report.html").find("one at a time (simulated)") != std::string::npos);
  settings.resumes = true;
  CHECK(place.run(settings).num_skipped == 4);
}

TEST_CASE("sweep: with a profile alone no server is started, and servers may differ in their workers") {
  std::string text = kExperiment;
  text.replace(text.find("argv = [\"/bin/false\", \"{port}\"]"), 31,
               "flags = [\"--device\", \"noop\", \"--model\", \"{root}/models/demo\", \"--workers\", \"3\"]");
  const Place place(text);
  auto settings = place.settings();
  settings.only_simulates = true;
  CHECK_THROWS_WITH(place.run(settings), "--only-simulate: expected --profile beside it");
  settings.profile = place.out().parent_path() / "profile.json";
  settings.troupe = "/bin/false";
  place.write("profile.json", profile_json(noop_profile(), {}));
  CHECK(place.run(settings).num_run == 4);
  CHECK_FALSE(fs::exists(place.cell("001-one-at-a-time-100-seed1")));
  CHECK(setting(read_result(place.cell("002-broken-100-seed1-simulated")), "dispatch") == "affinity");
}

// A sweep with a profile, of the experiment with `old` replaced. Returns its refusal.
std::string refusal(const std::string& old, const std::string& replacement) {
  std::string text = kExperiment;
  text.replace(text.find(old), old.size(), replacement);
  const Place place(text);
  auto settings = place.settings();
  settings.only = "one at a time";
  settings.profile = place.out().parent_path() / "profile.json";
  place.write("profile.json", profile_json(noop_profile(), {}));
  try {
    place.run(settings);
  } catch (const std::exception& error) {
    CHECK_FALSE(fs::exists(place.out()));
    return error.what();
  }
  return "none";
}

TEST_CASE("sweep: flags that all servers share and no simulation knows are refused before the first run") {
  CHECK(refusal("\"--max-batch-sequences\"", "\"--memory\", \"96MiB\", \"--max-batch-sequences\"") ==
        "server 'one at a time': --memory: the profile was measured with '0', the server has '96MiB', and no "
        "simulation changes it: expected a profile measured with the same (`troupe profile --memory ...`), "
        "or no "
        "--profile");
  CHECK(refusal("\"noop\"", "\"cpu\"")
            .starts_with("server 'one at a time': --device: the profile was measured with 'noop', the server "
                         "has 'cpu'"));
}

TEST_CASE("sweep: requests of encoders are not simulated as chats") {
  for (const std::string endpoint : {"embeddings", "classify"})
    CHECK(refusal("calibrates = false", "endpoint = \"" + endpoint + "\"") ==
          "run.endpoint: expected chat, completions or responses beside --profile, got '" + endpoint +
              "', which no simulation plays");
}

TEST_CASE("sweep: the experiments with cells are simulated with their profiles") {
  const fs::path experiments = fs::path(TROUPE_SOURCE_DIR) / "configs/experiments";
  for (const auto& [name, profile] :
       std::vector<std::pair<std::string, std::string>>{{"lstm", "lstm"},
                                                        {"lstm-fixed", "lstm"},
                                                        {"lstm-max-50", "lstm"},
                                                        {"lstm-max-100", "lstm"},
                                                        {"lstm-workers", "lstm"},
                                                        {"seq2seq", "seq2seq"},
                                                        {"tree", "tree-lstm"},
                                                        {"tree-complete", "tree-lstm"},
                                                        {"tree-workers", "tree-lstm"}}) {
    CAPTURE(name);
    const auto of_lines = [](const std::string& text) { return std::regex(text, std::regex::multiline); };
    std::string text = file_text(experiments / ("cells-" + name + ".toml"));
    text = std::regex_replace(text, of_lines("^rates = .*$"), "rates = [1000]\nseeds = [1]");
    text = std::regex_replace(text, of_lines("^duration_s = .*$"), "max_conversations = 8");
    text = std::regex_replace(text, of_lines("^warmup_s = .*$"), "warmup_s = 0");
    const Place place(text);
    auto settings = place.settings();
    settings.only_simulates = true;
    settings.profile = experiments / "profiles" / (profile + "-1024.json");
    const auto outcome = place.run(settings);
    CHECK(outcome.failures.empty());
    CHECK(outcome.num_run == read_experiment(settings.file).servers.size());
  }
}

std::string flag_refusal(const std::vector<std::string>& argv, const CostProfile& profile,
                         bool is_of_each_worker = false) {
  try {
    refuse_unsimulated_flags(argv, profile, is_of_each_worker);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(", and no simulation"));
  }
  return "";
}

TEST_CASE("serving_flags: flags that no simulation changes have to be those of the profile") {
  const auto profile = noop_profile();
  const std::vector<std::string> base = {"{troupe}", "serve", "--port", "{port}", "--device", "noop"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return flag_refusal(more, profile);
  };
  CHECK(with({}) == "");
  CHECK(with({"--model", "/elsewhere/models/demo/", "--log-level=debug", "--separate-prefill"}) == "");
  CHECK(with({"--memory", "0", "--pin-threads"}) == "");
  CHECK(with({"--model", "models/other"}) ==
        "--model: the profile was measured with 'demo', the server has 'models/other'");
  CHECK(with({"--pin-threads", "false"}) ==
        "--pin-threads: the profile was measured with 'true', the server has 'false'");
  CHECK(with({"--kv-type=q8"}) ==
        "--kv-type: the profile does not say with which it was measured, the server has 'q8'");
  CHECK(flag_refusal({"{troupe}", "serve"}, profile) ==
        "--device: the profile was measured with 'noop', the server has its default");
  CHECK(flag_refusal({"{troupe}", "serve", "--memory=1GiB"}, plain_profile()) ==
        "--memory: the profile does not say with which it was measured, the server has '1GiB'");
}

TEST_CASE("serving_flags: sizes are the same however they are written") {
  CostProfile profile;
  profile.flags = {{.name = "--memory", .value = "100663296"}};
  CHECK(flag_refusal({"--memory", "96MiB"}, profile) == "");
  CHECK(flag_refusal({"--memory", "97MiB"}, profile) != "");
}

TEST_CASE("serving_flags: rows are rounded as the profile's server rounded them, whatever auto meant then") {
  const auto refused = [](std::string device, std::string value, bool is_default,
                          const std::vector<std::string>& argv) {
    CostProfile profile;
    profile.device = std::move(device);
    profile.flags = {{.name = "--activations", .value = std::move(value), .is_default = is_default}};
    return flag_refusal(argv, profile);
  };
  const std::string before = "cpu, bf16, weights in Q4_K, Q6_K, 2 threads";
  const std::string now = "cpu, bf16, weights in Q4_K, activations in q8 for weights below 8 bits, 2 threads";
  for (const std::vector<std::string>& argv :
       {std::vector<std::string>{}, {"--activations", "auto"}, {"--activations=q8"}})
    CHECK(refused(before, "auto", true, argv) ==
          "--activations: the profile was measured when auto rounded no rows, which it does for weights "
          "below 8 bits");
  CHECK(refused("cpu, bf16, weights in q8, Q8_0, 2 threads", "auto", true, {}) == "");
  CHECK(refused("cpu, bf16, 2 threads", "auto", true, {}) == "");
  CHECK(refused(now, "auto", true, {"--activations", "auto"}) == "");  // named the value only later
  CHECK(refused(now, "q8 below 8 bits", true, {}) == "");
  CHECK(refused(now, "q8 below 8 bits", true, {"--activations", "auto"}) == "");
  CHECK(refused(now, "q8 below 8 bits", true, {"--activations", "exact"}) ==
        "--activations: the profile was measured with 'q8 below 8 bits', the server has 'exact'");
  CHECK(refused(before, "exact", false, {}) ==
        "--activations: the profile was measured with 'exact', the server has its default");
  CHECK(refused(before, "exact", false, {"--activations", "auto"}) ==
        "--activations: the profile was measured with 'exact', the server has 'auto'");
  CHECK(refused(before, "exact", false, {"--activations=exact"}) == "");
}

TEST_CASE("serving_flags: the disk tier of a profile is simulated where the server keeps a store") {
  CostProfile profile = noop_profile();
  profile.serving.num_host_pages = 4;
  profile.serving.num_disk_pages = 9;
  const std::vector<std::string> kept = {"--device=noop", "--store-directory", "/tmp/store"};
  auto server = profile.serving;
  leave_out_unused_disk(kept, server);
  CHECK(server.num_disk_pages == 9);
  for (const auto& argv :
       {std::vector<std::string>{"--device=noop"}, {"--device=noop", "--store-directory=none"}}) {
    server = profile.serving;
    leave_out_unused_disk(argv, server);
    CHECK(server.num_disk_pages == 0);
  }
  CHECK(flag_refusal(kept, profile) == "");
  profile.serving.num_disk_pages = 0;
  CHECK(flag_refusal(kept, profile) ==
        "--store-directory: the profile was measured without a disk tier, the server has one");
}

TEST_CASE("serving_flags: a profile of each worker is that of any number of them") {
  const std::vector<std::string> three = {"--device=noop", "--workers", "3"};
  CHECK(flag_refusal(three, noop_profile(), true) == "");
  CHECK(flag_refusal(three, noop_profile(), false) ==
        "--workers: the profile was measured with '1', the server has '3'");
}

TEST_CASE("serving_flags: the number of workers is read where a server names it") {
  CHECK(workers_of({"troupe", "serve"}) == 1);
  CHECK(workers_of({"troupe", "serve", "--workers", "4"}) == 4);
  CHECK_THROWS_WITH(workers_of({"troupe", "--workers=0"}),
                    "--workers: expected a number from 1 to 4096, got '0'");
}

TEST_CASE("serving_flags: what steers batching is taken over, the rest is left alone") {
  ServingSettings settings;
  settings.max_batch_tokens = 512;
  apply_serving_flags(
      {"troupe", "serve", "--cache-policy=none", "--max-batch-sequences", "7", "--max-in-flight=3",
       "--device", "noop", "--max-queue-seconds", "2", "--separate-prefill"},
      settings);
  CHECK(settings.separates_prefill);
  CHECK_FALSE(settings.keeps_prefixes());
  CHECK(settings.max_batch_sequences == 7);
  CHECK(settings.max_in_flight == 3);
  CHECK(settings.max_queue_time == std::chrono::seconds(2));
  CHECK(settings.max_batch_tokens == 512);
  apply_serving_flags({"--cache-policy", "lru", "--max-waiting"}, settings);
  CHECK(settings.cache_policy == EvictionPolicy::kLru);
  CHECK_THROWS_WITH(apply_serving_flags({"--max-waiting", "many"}, settings),
                    "--max-waiting: expected a whole number, got 'many'");
}

TEST_CASE("serving_flags: every setting of the server is one of the simulator") {
  for (const auto& setting : serving_table()) {
    ServingSettings settings;
    const auto text = text_of(setting.field.in(settings), setting.rule());
    CHECK_NOTHROW(apply_serving_flags({std::string(setting.flag) + "=" + text}, settings));
    CHECK_THROWS(apply_serving_flags({std::string(setting.flag) + "=?"}, settings));
  }
}

TEST_CASE("serving_flags: a switch takes the word behind it only where that is true or false") {
  ServingSettings settings;
  apply_serving_flags({"--separate-prefill", "false", "--prefill-chunk", "9"}, settings);
  CHECK_FALSE(settings.separates_prefill);
  apply_serving_flags({"--separate-prefill", "--prefill-chunk", "8"}, settings);
  CHECK(settings.separates_prefill);
  CHECK(settings.prefill_chunk == 8);
}

TEST_CASE("serving_flags: a simulation may go beyond what a server allows") {
  ServingSettings settings;
  apply_serving_flags({"--max-waiting=1000000", "--itl-factor=5000", "--cache-keep-free-percent=95"},
                      settings);
  CHECK(settings.max_waiting == 1'000'000);
  CHECK(settings.itl_factor == 5000);
  CHECK(settings.keep_free == 0.95);
}

constexpr const char* kPeer = R"(
[experiment]
name = "peer"
rates = [100, 200]
seeds = [1]

[[server]]
name = "there already"
url = "URL"
reset = "/reset_prefix_cache"

[[server]]
name = "the same"
url = "URL"

[run]
calibrates = false
metrics_period_s = 0

[workload]
max_conversations = 2

[[class]]
prompt_tokens = 40
output_tokens = 2
)";

// Whatever is asked; a chat's answer has two tokens. Resets are answered with the status.
ScriptedAnswer peer_answer(const ScriptedExchange& request, const std::string& reset_status) {
  if (request.head.starts_with("GET /v1/models "))
    return whole_response("200 OK", R"({"data":[{"id":"m"}]})");
  if (request.head.starts_with("POST /reset_prefix_cache ")) return whole_response(reset_status, "");
  if (request.head.starts_with("GET ")) return whole_response("404 Not Found", "");
  if (request.body.find("\"stream\":false") != std::string::npos) return whole_response("200 OK", "{}");
  return streamed_answer({std::chrono::milliseconds(1), std::chrono::milliseconds(1)});
}

Place place_of_peer(const ScriptedServer& server) {
  std::string text = kPeer;
  const auto url = "http://127.0.0.1:" + std::to_string(server.port());
  for (auto at = text.find("URL"); at != std::string::npos; at = text.find("URL")) text.replace(at, 3, url);
  return Place(text);
}

TEST_CASE("sweep: no run sends a server that stays the words of a run before, however equal the seeds") {
  ScriptedServer server(
      [](const ScriptedExchange& request, std::size_t) { return peer_answer(request, "200 OK"); });
  const Place place = place_of_peer(server);
  auto settings = place.settings();
  CHECK(place.run(settings).num_run == 4);
  settings.out = place.out().parent_path() / "once more";
  CHECK(place.run(settings).num_run == 4);
  server.stop();
  std::set<std::string> bodies;
  std::size_t num_chats = 0, num_resets = 0, before_chat = 0;
  for (const auto& exchange : server.exchanges()) {
    if (exchange->head.starts_with("POST /reset_prefix_cache ")) num_resets += 1;
    if (exchange->body.find("\"stream\":true") == std::string::npos) continue;
    num_chats += 1;
    if (num_resets > 0) before_chat += 1;
    bodies.insert(exchange->body);
  }
  CHECK(num_chats == 16);
  CHECK(bodies.size() == 16);
  CHECK(num_resets == 4);  // before each run of the server that asks for it
  CHECK(before_chat == 16);
  const auto first = read_result(place.cell("001-there-already-100-seed1"));
  CHECK(setting(first, "seed") == "1");
  CHECK(setting(first, "prompt seed") !=
        setting(read_result(place.cell("003-there-already-200-seed1")), "prompt seed"));
}

TEST_CASE("sweep: a server that does not reset its caches costs the run") {
  ScriptedServer server(
      [](const ScriptedExchange& request, std::size_t) { return peer_answer(request, "404 Not Found"); });
  const Place place = place_of_peer(server);
  const auto outcome = place.run(place.settings());
  CHECK(outcome.num_run == 2);
  REQUIRE(outcome.failures.size() == 2);
  CHECK(outcome.failures[0].ends_with("/reset_prefix_cache: expected its caches reset, got status 404"));
}

TEST_CASE("sweep: placeholders are filled in wherever they stand") {
  SweepSettings settings;
  settings.troupe = "/bin/troupe";
  settings.root = "/src";
  const ServerConfiguration server{.name = "s",
                                   .argv = {"{troupe}", "a={root}/b:{root}", "{port}"},
                                   .url = {},
                                   .reset = {},
                                   .arrivals = {}};
  CHECK(server_arguments(server, settings) ==
        std::vector<std::string>{"/bin/troupe", "a=/src/b:/src", "{port}"});
}

}  // namespace
}  // namespace troupe::loadgen
