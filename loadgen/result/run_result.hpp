// SPDX-License-Identifier: Apache-2.0
// All that one run of a load experiment leaves, live or simulated: from it come
// the terminal's table, JSON, CSV and the report.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/result/request_record.hpp"
#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// The server's state at one moment (from its /metrics, or the simulator).
struct ServerSample {
  std::chrono::nanoseconds time{0};  // from the begin of the run
  double num_running = 0;
  double num_waiting = 0;
  double pages_used = 0;  // running and cached
  double pages_total = 0;
  double batch_tokens = 0;       // mean of the batches since the sample before
  double generation_tokens = 0;  // counter
};

struct RunResult {
  std::string name;  // of the run: "poisson-4rps-seed1"
  bool is_simulated = false;
  // Everything needed to repeat it, in order, as shown to people: url or server
  // configuration, model, workload, arrivals, seed, version, hardware.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<RequestClass> classes;
  double offered_rate = 0;               // requests a second as planned; 0: closed loop
  std::chrono::nanoseconds duration{0};  // begin of the run to its last event
  // Records whose intended time lies outside are run, and not counted.
  std::chrono::nanoseconds measured_from{0};
  std::chrono::nanoseconds measured_until{0};
  std::vector<RequestRecord> records;  // in the order they ended
  std::vector<ServerSample> samples;   // empty where the server has no /metrics
  // The generator could not keep up: results say more of it than of the server.
  bool is_beyond_honest_rate = false;
  std::vector<std::string> warnings;
};

// Settings by which runs of a sweep are grouped: the server's configuration,
// the users of a closed loop (elsewhere offered_rate counts), the seed.
inline constexpr std::string_view kServerSetting = "server";
inline constexpr std::string_view kUsersSetting = "users";
inline constexpr std::string_view kSeedSetting = "seed";
// Requests that count in percentiles of latencies: all, if the run does not say kOfCompleted.
inline constexpr std::string_view kPercentilesSetting = "percentiles";
inline constexpr std::string_view kOfCompleted = "of completed requests only";

// The value of the first setting of that name; empty if there is none.
std::string_view setting(const RunResult& result, std::string_view name);

}  // namespace troupe::loadgen
