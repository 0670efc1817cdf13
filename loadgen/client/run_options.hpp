// SPDX-License-Identifier: Apache-2.0
// How a run is made, apart from its workload: table [run] of a TOML file. The
// flags of `troupe-loadgen run` have the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <toml++/toml.h>

#include "loadgen/client/live_run.hpp"

namespace troupe::loadgen {

struct RunOptions {
  std::string name;
  std::string url = "http://127.0.0.1:8000";
  std::string certificate;  // of https: a PEM file of certificates to trust; empty: the system's
  bool insecure = false;    // of https: any certificate will do
  std::string model;        // empty: the server's first
  std::string api_key;
  std::string endpoint = "chat";  // or "completions", "responses", "embeddings", "classify"
  bool streams = true;
  bool tells_lengths = false;  // of answers, where they are known, to a server that sets memory aside by them
  std::string percentiles = "all";  // of latencies: of all requests, or only of those "completed"
  double temperature = 0;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> prompt_seed;  // no key: as LiveRunSettings, set by sweeps
  double warmup_s = 0;
  double cooldown_s = 0;
  double drain_s = 30;
  double timeout_s = 600;
  std::uint64_t max_connections = 0;   // 0: as many as the limit of open files allows
  std::uint32_t max_unreachable = 20;  // in a row, then the run is given up
  double max_error_share = 0.01;
  double metrics_period_s = 1;  // 0: never
  std::string cpus;             // of the generator, such as "0-2,5"; empty: any
  bool calibrates = true;
  // tokenizer.json of the server's model, or its directory: prompts of exact lengths; empty: none.
  std::string tokenizer;
  std::uint32_t first_prompt_id = 0;  // both 0: prompts are words
  std::uint32_t end_prompt_id = 0;
};

// Leaves alone what the table does not say. Throws std::runtime_error with file
// and line.
void read_run_options(const toml::table& root, RunOptions& options);

// Throws std::runtime_error: "run.warmup_s: expected …, got …".
LiveRunSettings live_settings(const RunOptions& options, const WorkloadSettings& workload);

}  // namespace troupe::loadgen
