// SPDX-License-Identifier: Apache-2.0
// One whole run against a live server: look at the server, find out what this
// machine's generator can do, play the workload, watch the server's metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/client/load_driver.hpp"
#include "loadgen/client/prompt_writer.hpp"
#include "loadgen/workload/workload_settings.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe::loadgen {

struct LiveRunSettings {
  std::string name;  // of the run; empty: made of workload, rate and seed
  // In `load`, the closed loop's users and the duration come from the workload,
  // and an empty model is the server's first.
  LoadSettings load;
  WorkloadSettings workload;
  std::uint64_t seed = 1;
  // The words and ids of made-up prompts, where they are not those of `seed`: the same lengths at the
  // same times, but nothing that a cache may have.
  std::optional<std::uint64_t> prompt_seed;
  // Prompts as token ids of this range instead of words: exact lengths. Only
  // for kCompletions and conversations of one turn.
  std::optional<TokenRange> prompt_ids;
  // Prompts as words, of exact lengths by this tokenizer; null: of about the planned length.
  std::shared_ptr<const Tokenizer> tokenizer;
  std::chrono::milliseconds sample_period{1000};  // of /metrics; 0: none
  std::vector<std::int32_t> cpus;                 // of the generator, and all that it starts; empty: any
  bool calibrates = true;
  bool counts_completed_only = false;  // in percentiles of latencies
};

struct LiveRun {
  RunResult result;
  bool was_interrupted = false;
  bool was_given_up = false;  // the server could not be reached any more
};

// Blocks. Throws ServerUnreachable (http_exchange.hpp) if no server answers,
// std::runtime_error for settings, files and models that make no sense; both
// before anything was sent.
LiveRun run_live(const LiveRunSettings& settings, const OnStatus& on_status);

}  // namespace troupe::loadgen
