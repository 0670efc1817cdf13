// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/run_options.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/toml/setting_check.hpp"
#include "loadgen/workload/toml/table_reader.hpp"
#include "telemetry/cpu_list.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kOtherFiles = 64;  // besides connections

milliseconds seconds_to_milliseconds(double seconds) {
  return std::chrono::duration_cast<milliseconds>(seconds_to_nanoseconds(seconds));
}

std::optional<Endpoint> endpoint_named(const std::string& name) {
  if (name == "chat") return Endpoint::kChat;
  if (name == "completions") return Endpoint::kCompletions;
  if (name == "responses") return Endpoint::kResponses;
  if (name == "embeddings") return Endpoint::kEmbeddings;
  if (name == "classify") return Endpoint::kClassify;
  return std::nullopt;
}

void check(const RunOptions& options) {
  if (!endpoint_named(options.endpoint))
    refuse_setting("run.endpoint", "chat, completions, responses, embeddings or classify",
                   "'" + options.endpoint + "'");
  if (options.percentiles != "all" && options.percentiles != "completed")
    refuse_setting("run.percentiles", "all or completed", "'" + options.percentiles + "'");
  expect_at_least("run.temperature", 0, options.temperature);
  expect_at_least("run.warmup_s", 0, options.warmup_s);
  expect_at_least("run.cooldown_s", 0, options.cooldown_s);
  expect_at_least("run.drain_s", 0, options.drain_s);
  expect_above_zero("run.timeout_s", options.timeout_s);
  expect_at_least("run.max_unreachable", 1, options.max_unreachable);
  expect_at_least("run.max_error_share", 0, options.max_error_share);
  expect_at_least("run.metrics_period_s", 0, options.metrics_period_s);
  if (options.insecure && !options.certificate.empty())
    refuse_setting("run.certificate", "none where any certificate will do (insecure)",
                   "'" + options.certificate + "'");
  if (!options.cpus.empty() && !parse_cpu_list(options.cpus))
    refuse_setting("run.cpus", "numbers of CPUs such as 0-2,5", "'" + options.cpus + "'");
  if (!options.tokenizer.empty() && options.end_prompt_id > 0)
    refuse_setting("run.tokenizer", "none where prompts are token ids (end_prompt_id)",
                   "'" + options.tokenizer + "'");
  if (options.end_prompt_id > 0 && options.first_prompt_id >= options.end_prompt_id)
    refuse_setting("run.first_prompt_id", "less than end_prompt_id, " + std::to_string(options.end_prompt_id),
                   std::to_string(options.first_prompt_id));
}

void check_window(const RunOptions& options, double duration_s) {
  if (duration_s > 0 && options.warmup_s + options.cooldown_s >= duration_s)
    refuse_setting("run.warmup_s and cooldown_s",
                   "less than the duration of " + number_text(duration_s) + " s together",
                   number_text(options.warmup_s + options.cooldown_s) + " s");
}

// The file itself may be named.
std::filesystem::path directory_of(const std::filesystem::path& tokenizer) {
  if (tokenizer.filename() != "tokenizer.json") return tokenizer;
  return tokenizer.has_parent_path() ? tokenizer.parent_path() : std::filesystem::path(".");
}

// Raises the limit of open files as far as that is allowed without privileges.
std::uint64_t most_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > 2 * kOtherFiles ? limit.rlim_cur - kOtherFiles : kOtherFiles;
}

}  // namespace

void read_run_options(const toml::table& root, RunOptions& options) {
  const auto* node = root.get("run");
  if (node == nullptr) return;
  if (!node->is_table()) refuse_at(node->source(), "run: expected a table [run]");
  TableReader reader(*node->as_table(), "run");
  reader.read("name", options.name);
  reader.read("url", options.url);
  reader.read("certificate", options.certificate);
  reader.read("insecure", options.insecure);
  reader.read("model", options.model);
  reader.read("api_key", options.api_key);
  options.endpoint = reader.read_choice(
      "endpoint", {"chat", "completions", "responses", "embeddings", "classify"}, options.endpoint);
  reader.read("streams", options.streams);
  reader.read("tells_lengths", options.tells_lengths);
  options.percentiles = reader.read_choice("percentiles", {"all", "completed"}, options.percentiles);
  reader.read("temperature", options.temperature);
  reader.read("seed", options.seed);
  reader.read("warmup_s", options.warmup_s);
  reader.read("cooldown_s", options.cooldown_s);
  reader.read("drain_s", options.drain_s);
  reader.read("timeout_s", options.timeout_s);
  reader.read("max_connections", options.max_connections);
  reader.read("max_unreachable", options.max_unreachable);
  reader.read("max_error_share", options.max_error_share);
  reader.read("metrics_period_s", options.metrics_period_s);
  reader.read("cpus", options.cpus);
  reader.read("tokenizer", options.tokenizer);
  reader.read("calibrates", options.calibrates);
  reader.read("first_prompt_id", options.first_prompt_id);
  reader.read("end_prompt_id", options.end_prompt_id);
  reader.refuse_unknown_keys();
}

LiveRunSettings live_settings(const RunOptions& options, const WorkloadSettings& workload) {
  check(options);
  check_window(options, workload.duration_s);
  LiveRunSettings settings;
  settings.name = options.name;
  settings.workload = workload;
  settings.seed = options.seed;
  settings.prompt_seed = options.prompt_seed;
  settings.sample_period = seconds_to_milliseconds(options.metrics_period_s);
  if (!options.tokenizer.empty()) settings.tokenizer = load_tokenizer(directory_of(options.tokenizer));
  if (!options.cpus.empty()) settings.cpus = *parse_cpu_list(options.cpus);
  settings.calibrates = options.calibrates;
  settings.counts_completed_only = options.percentiles == "completed";
  if (options.end_prompt_id > 0)
    settings.prompt_ids = {.first = static_cast<std::int32_t>(options.first_prompt_id),
                           .end = static_cast<std::int32_t>(options.end_prompt_id)};
  auto& load = settings.load;
  load.client.server = parse_server_address(options.url);
  load.client.server.trust = {.certificate_file = options.certificate, .is_insecure = options.insecure};
  load.client.api_key = options.api_key;
  load.client.timeout = seconds_to_milliseconds(options.timeout_s);
  const auto most = most_connections();
  load.client.max_connections = options.max_connections > 0 ? std::min(options.max_connections, most) : most;
  load.endpoint = *endpoint_named(options.endpoint);
  load.sampling.model = options.model;
  load.sampling.is_streamed =
      options.streams && load.endpoint != Endpoint::kEmbeddings && load.endpoint != Endpoint::kClassify;
  load.tells_lengths = options.tells_lengths;
  load.sampling.temperature = options.temperature;
  if (options.temperature > 0) load.sampling.seed = static_cast<std::int64_t>(options.seed);
  load.warm_up = seconds_to_nanoseconds(options.warmup_s);
  load.cool_down = seconds_to_nanoseconds(options.cooldown_s);
  load.drain_grace = seconds_to_nanoseconds(options.drain_s);
  load.max_unreachable_in_a_row = options.max_unreachable;
  return settings;
}

}  // namespace troupe::loadgen
