// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/workload_flags.hpp"

#include <filesystem>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "loadgen/workload/toml/table_reader.hpp"
#include "loadgen/workload/toml/workload_toml.hpp"

namespace troupe::loadgen {
namespace {

using Kind = ArrivalSettings::Kind;

void apply_arrivals(const WorkloadFlags& flags, ArrivalSettings& arrivals, bool has_own_arrivals) {
  if (flags.rate && flags.users)
    throw std::runtime_error("--rate (open loop) and --users (closed loop) exclude each other");
  if (flags.users) {
    arrivals.kind = Kind::kClosed;
    arrivals.users = *flags.users;
  }
  if (flags.burstiness) {
    arrivals.kind = Kind::kGamma;
    arrivals.burstiness = *flags.burstiness;
  } else if (flags.rate && !has_own_arrivals) {
    arrivals.kind = Kind::kPoisson;
  }
  if (flags.rate) set_mean_rate(arrivals, *flags.rate);
}

}  // namespace

void add_workload_flags(CLI::App& app, WorkloadFlags& flags) {
  std::string presets;
  for (const auto& name : preset_names()) presets += (presets.empty() ? "" : ", ") + name;
  app.add_option("--workload", flags.file,
                 "TOML file with [workload], [arrivals], [[class]] and, for live runs, [run]");
  app.add_option("--preset", flags.preset, "a workload by name: " + presets);
  app.add_option("--rate", flags.rate,
                 "open loop: conversations a second, Poisson unless the file says otherwise");
  app.add_option("--burstiness", flags.burstiness,
                 "with --rate: Gamma arrivals of this shape; below 1 is burstier");
  app.add_option("--users", flags.users, "closed loop: this many users, one request each at a time");
  app.add_option("--duration", flags.duration, "seconds; nothing is sent later");
  app.add_option("--conversations", flags.conversations, "at most this many");
  app.add_option("--prompt-tokens", flags.prompt_tokens, "synthetic prompts of this length");
  app.add_option("--output-tokens", flags.output_tokens, "answers of this length");
}

WorkloadSettings workload_of(const WorkloadFlags& flags) {
  if (!flags.file.empty() && !flags.preset.empty())
    throw std::runtime_error("--workload and --preset exclude each other");
  if (flags.file.empty() && flags.preset.empty() && !flags.prompt_tokens)
    throw std::runtime_error("what is to be sent? Give --workload FILE, --preset NAME or --prompt-tokens N");
  WorkloadSettings workload;
  bool has_own_arrivals = false;
  if (!flags.file.empty()) {
    const auto root = parse_toml_file(flags.file);
    workload = read_workload(root, std::filesystem::path(flags.file).parent_path());
    has_own_arrivals = root.contains("arrivals");
  } else if (!flags.preset.empty()) {
    workload = preset(flags.preset);
  } else {
    workload.name = "synthetic";
  }
  apply_arrivals(flags, workload.arrivals, has_own_arrivals);
  // One limit replaces the other: who types a duration does not want the preset's 1000.
  if (flags.duration && !flags.conversations) workload.max_conversations = 0;
  workload.duration_s = flags.duration.value_or(workload.duration_s);
  workload.max_conversations = flags.conversations.value_or(workload.max_conversations);
  for (auto& settings : workload.classes) {
    if (flags.prompt_tokens) settings.prompt_tokens = fixed(*flags.prompt_tokens);
    if (!flags.output_tokens) continue;
    settings.output_tokens = fixed(*flags.output_tokens);
    settings.request_class.ignore_eos = true;
  }
  return workload;
}

}  // namespace troupe::loadgen
