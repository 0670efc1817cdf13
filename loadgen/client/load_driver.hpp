// SPDX-License-Identifier: Apache-2.0
// Plays planned conversations against a server and records what becomes of each
// request.
//
// Open loop: a conversation's first turn is sent at its intended time, whatever
// the server does. Closed loop: each of N users sends the next conversation
// once theirs is over. In both, a later turn is intended at the end of its
// predecessor plus think time. Latencies count from the intended time; waiting
// for a free connection is part of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/client/dialogue.hpp"
#include "loadgen/client/http/completion_client.hpp"
#include "loadgen/client/live_status.hpp"
#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

struct LoadSettings {
  ClientSettings client;
  Endpoint endpoint = Endpoint::kChat;
  SamplingFields sampling;               // model, streaming, temperature, seed
  bool tells_lengths = false;            // of answers, as RunOptions
  std::uint32_t num_users = 0;           // closed loop; 0: open loop
  std::chrono::nanoseconds duration{0};  // nothing is sent later; 0: until the plan ends
  // The plan ends because of `duration`, not by itself: even if its last request
  // is over sooner, all of this time is measured.
  bool plan_fills_duration = false;
  // Requests intended in the first and the last part are sent, and not counted.
  std::chrono::nanoseconds warm_up{0};
  std::chrono::nanoseconds cool_down{0};
  // How long answers may go on after the last request was due.
  std::chrono::nanoseconds drain_grace = std::chrono::seconds(30);
  // The run is given up when so many requests in a row can't reach the server.
  std::uint32_t max_unreachable_in_a_row = 20;
  std::chrono::milliseconds status_period{1000};
  bool stops_on_signals = false;  // SIGINT and SIGTERM end the run early
};

struct LoadRun {
  RunResult result;  // records, window, warnings; names and settings are the caller's
  // How late requests were begun by us: 99th percentile. Not the server's fault.
  std::chrono::nanoseconds start_delay_p99{0};
  SteadyTime begin{};         // origin of all times of the result
  bool was_realtime = false;  // this thread, as realtime_thread.hpp says
  bool was_interrupted = false;
  bool was_given_up = false;  // the server could not be reached any more
};

using OnStatus = std::function<void(const LiveStatus&)>;

// Blocks until all is over. `on_status` may be empty; it is called once a
// period, on this thread, and has to be quick. Throws std::runtime_error if the
// host has no address, and what the source throws before anything was sent; if
// the source throws later, the run ends there, with a warning.
LoadRun run_load(const LoadSettings& settings, const std::vector<RequestClass>& classes,
                 ConversationSource& source, const TurnPrompts& prompts, const OnStatus& on_status);

}  // namespace troupe::loadgen
