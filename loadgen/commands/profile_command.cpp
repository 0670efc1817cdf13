// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/run_options.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/simulator/cost_profile_file.hpp"
#include "loadgen/simulator/live_overheads.hpp"

namespace troupe::loadgen {
namespace {

struct ProfileFlags {
  std::string profile, out, endpoint = "chat";
  RunOptions run;
  std::vector<std::uint32_t> users;
  std::uint32_t requests = 6;  // of each user
  std::uint32_t max_prompt_tokens = 200;
  std::uint32_t output_tokens = 32;
};

void add_flags(CLI::App& app, ProfileFlags& flags) {
  app.add_option("--profile", flags.profile, "costs, as `troupe profile` measured them")->required();
  app.add_option("--out", flags.out, "the file to write (default: the same)");
  app.add_option("--url", flags.run.url, "the server, of the same model and options, without other load")
      ->capture_default_str();
  app.add_option("--model", flags.run.model, "its name there (default: the first of /v1/models)");
  app.add_option("--cpus", flags.run.cpus, "CPUs of this generator, such as 0-2,5 (default: any)");
  app.add_option("--endpoint", flags.endpoint, "chat or completions")->capture_default_str();
  app.add_option("--users", flags.users,
                 "numbers of users to try, 1 among them (default: 1, 4, 16 … as many as run at once)")
      ->delimiter(',');
  app.add_option("--requests", flags.requests, "of each user")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--max-prompt-tokens", flags.max_prompt_tokens, "prompts are from 8 to so long")
      ->check(CLI::Range(8, 1'000'000))
      ->capture_default_str();
  app.add_option("--output-tokens", flags.output_tokens, "answers are so long")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
}

std::vector<std::uint32_t> default_users(std::uint32_t most) {
  std::vector<std::uint32_t> users;
  for (std::uint32_t n = 1; n < most; n *= 4) users.push_back(n);
  users.push_back(most);
  return users;
}

// Prompts of four lengths, so that each has several times to first token.
WorkloadSettings workload_of(const ProfileFlags& flags, std::uint32_t num_users) {
  WorkloadSettings workload;
  workload.name = "profile";
  workload.arrivals.kind = ArrivalSettings::Kind::kClosed;
  workload.arrivals.users = num_users;
  // A user alone says more often what a request costs.
  workload.max_conversations = std::uint64_t{num_users} * flags.requests * (num_users == 1 ? 8 : 1);
  workload.classes.clear();
  for (std::uint32_t i = 1; i <= 4; ++i) {
    ClassSettings settings;
    settings.request_class.name = std::to_string(i);
    settings.request_class.ignore_eos = true;
    settings.prompt_tokens = fixed(std::max(8U, flags.max_prompt_tokens * i / 4));
    settings.output_tokens = fixed(flags.output_tokens);
    workload.classes.push_back(std::move(settings));
  }
  return workload;
}

CalibrationRun run_users(const ProfileFlags& flags, std::uint32_t num_users) {
  RunOptions options = flags.run;
  options.endpoint = flags.endpoint;
  options.seed = num_users;  // other prompts each time: nothing is cached
  options.calibrates = false;
  options.metrics_period_s = 0;
  const auto run = run_live(live_settings(options, workload_of(flags, num_users)), {});
  if (run.was_given_up || run.was_interrupted)
    throw std::runtime_error("the run with " + std::to_string(num_users) + " users did not come to its end");
  std::fprintf(stderr, "%u users: %zu requests\n", num_users, run.result.records.size());
  return {.num_users = num_users, .result = run.result};
}

}  // namespace

int profile_command(const std::vector<std::string>& arguments) {
  ProfileFlags flags;
  CLI::App app("What a live server adds to the costs of its device", "troupe-loadgen profile");
  add_flags(app, flags);
  if (const auto status = parse_flags(app, arguments)) return *status;
  const CostProfile profile = read_cost_profile(flags.profile);
  const ServingSettings& settings = profile.serving.settings;
  const std::uint32_t most_running = std::min(settings.max_batch_sequences, settings.max_batch_tokens);
  const auto users = flags.users.empty() ? default_users(most_running) : flags.users;
  try {
    std::vector<CalibrationRun> runs;
    for (const std::uint32_t num_users : users) runs.push_back(run_users(flags, num_users));
    const ServingOverheads overheads = fit_overheads(profile, runs);
    write_with_overheads(flags.profile, flags.out.empty() ? flags.profile : flags.out, overheads);
    std::printf(
        "the server and this client add %.1f us and %.3f us a prompt token to a request,\n"
        "%.1f us and %.2f us a sequence to a batch, %.1f us to the end of an answer\n",
        overheads.request / 1e3, overheads.per_prompt_token / 1e3, overheads.iteration / 1e3,
        overheads.iteration_per_sequence / 1e3, overheads.end / 1e3);
  } catch (const ServerUnreachable& error) {
    std::fprintf(stderr, "troupe-loadgen profile: %s\n", error.what());
    return kServerUnreachable;
  }
  return kSuccess;
}

}  // namespace troupe::loadgen
