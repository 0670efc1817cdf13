// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/live_status.hpp"
#include "loadgen/client/run_options.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/find_rate.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/commands/workload_flags.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/result/summary.hpp"
#include "loadgen/workload/toml/table_reader.hpp"

namespace troupe::loadgen {
namespace {

// What was typed; what is missing leaves the file's or the preset's word.
struct RunFlags {
  WorkloadFlags workload;
  std::optional<double> warmup, cooldown, drain, timeout, temperature, max_error_share;
  std::optional<std::uint64_t> seed, max_connections;
  std::optional<std::string> url, certificate, model, endpoint, percentiles, cpus, tokenizer, name;
  RateSearchFlags search;
  bool is_insecure = false;
  bool tells_lengths = false;
  bool is_whole = false;
  bool skips_calibration = false;
  std::string out;
};

void add_flags(CLI::App& app, RunFlags& flags) {
  add_workload_flags(app, flags.workload);
  app.add_option("--seed", flags.seed, "of the plan; the same seed sends the same requests")
      ->default_str("1");
  app.add_option("--url", flags.url, "the server")->default_str("http://127.0.0.1:8000");
  app.add_option("--certificate", flags.certificate,
                 "of https: a PEM file of certificates to trust (default: the system's)");
  app.add_flag("--insecure", flags.is_insecure, "of https: any certificate will do");
  app.add_option("--model", flags.model, "its name there (default: the first of /v1/models)");
  app.add_option("--endpoint", flags.endpoint, "chat, completions, responses, embeddings or classify")
      ->default_str("chat");
  app.add_flag("--no-stream", flags.is_whole, "ask for whole answers");
  app.add_flag(
      "--tell-lengths", flags.tells_lengths,
      "say how long each answer will be, where that is known: of a server with --reservation oracle");
  app.add_option("--temperature", flags.temperature, "of sampling")->default_str("0");
  app.add_option("--percentiles", flags.percentiles,
                 "of latencies: all, where a request that was not completed is longer than any other, or "
                 "completed, of the others only")
      ->default_str("all");
  app.add_option("--warmup", flags.warmup, "seconds at the begin that are not measured")->default_str("0");
  app.add_option("--cooldown", flags.cooldown, "seconds at the end that are not measured")->default_str("0");
  app.add_option("--drain", flags.drain, "seconds for the last answers")->default_str("30");
  app.add_option("--timeout", flags.timeout, "seconds for one request")->default_str("600");
  app.add_option("--max-connections", flags.max_connections,
                 "more requests than that wait (default: what open files allow)");
  app.add_option("--max-error-share", flags.max_error_share,
                 "of failed requests; beyond it the exit status is 1")
      ->default_str("0.01");
  app.add_option(
      "--tokenizer", flags.tokenizer,
      "tokenizer.json of the server's model, or its directory: prompts have exactly the planned tokens");
  app.add_option("--cpus", flags.cpus, "CPUs of this generator, such as 0-2,5 (default: any)");
  app.add_flag("--no-calibrate", flags.skips_calibration, "don't measure first what this generator can do");
  app.add_option("--name", flags.name, "of the run (default: made of workload, rate and seed)");
  app.add_option("--out", flags.out, "directory for results.json and requests.jsonl");
  const std::string search = "The highest rate";
  app.add_flag(
         "--find-rate", flags.search.is_wanted,
         "run at one rate after the other, from the workload's on: the highest that keeps the objective")
      ->group(search);
  app.add_option("--objective", flags.search.objective, "such as ttft_p99=500ms,tpot_p99=50ms")
      ->group(search);
  app.add_option("--precision", flags.search.precision,
                 "share by which met and missed rates may differ at the end")
      ->default_str("0.05")
      ->check(CLI::Range(0.001, 1.0))
      ->group(search);
  app.footer("TROUPE_LOADGEN_API_KEY or OPENAI_API_KEY is sent as bearer token.");
}

template <class T, class U>
void override_with(T& value, const std::optional<U>& flag) {
  if (flag) value = *flag;
}

void apply_options(const RunFlags& flags, RunOptions& options) {
  override_with(options.name, flags.name);
  override_with(options.url, flags.url);
  override_with(options.certificate, flags.certificate);
  override_with(options.model, flags.model);
  override_with(options.endpoint, flags.endpoint);
  override_with(options.percentiles, flags.percentiles);
  override_with(options.cpus, flags.cpus);
  override_with(options.tokenizer, flags.tokenizer);
  override_with(options.temperature, flags.temperature);
  override_with(options.seed, flags.seed);
  override_with(options.warmup_s, flags.warmup);
  override_with(options.cooldown_s, flags.cooldown);
  override_with(options.drain_s, flags.drain);
  override_with(options.timeout_s, flags.timeout);
  override_with(options.max_connections, flags.max_connections);
  override_with(options.max_error_share, flags.max_error_share);
  if (flags.is_insecure) options.insecure = true;
  if (flags.is_whole) options.streams = false;
  if (flags.tells_lengths) options.tells_lengths = true;
  if (flags.skips_calibration) options.calibrates = false;
  for (const char* variable : {"OPENAI_API_KEY", "TROUPE_LOADGEN_API_KEY"})
    if (const char* key = std::getenv(variable); key != nullptr && *key != '\0') options.api_key = key;
}

int exit_status(const LiveRun& run, const Summary& summary, double max_error_share) {
  if (run.was_given_up) return kServerUnreachable;
  const auto& total = summary.total;
  const double allowed = max_error_share * static_cast<double>(total.num_requests);
  return static_cast<double>(total.num_failed()) > allowed ? kTooManyErrors : kSuccess;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  RunFlags flags;
  CLI::App app("One run against a live server", "troupe-loadgen run");
  add_flags(app, flags);
  if (const auto status = parse_flags(app, arguments)) return *status;
  RunOptions options;
  const auto workload = workload_of(flags.workload);
  if (!flags.workload.file.empty()) read_run_options(parse_toml_file(flags.workload.file), options);
  apply_options(flags, options);
  if (flags.search.is_wanted == flags.search.objective.empty())
    throw std::runtime_error("--find-rate and --objective need each other");
  try {
    if (flags.search.is_wanted) return find_rate(flags.search, options, workload, flags.out);
    auto settings = live_settings(options, workload);
    settings.load.stops_on_signals = true;
    StatusPrinter printer(stderr);
    const auto run = run_live(settings, [&](const LiveStatus& status) { printer.print(status); });
    printer.finish();
    const auto summary = summarize(run.result);
    if (!flags.out.empty()) write_result(flags.out, run.result, summary);
    print_summary(std::cout, run.result, summary);
    return exit_status(run, summary, options.max_error_share);
  } catch (const ServerUnreachable& error) {
    std::fprintf(stderr, "troupe-loadgen run: %s\n", error.what());
    return kServerUnreachable;
  }
}

}  // namespace troupe::loadgen
