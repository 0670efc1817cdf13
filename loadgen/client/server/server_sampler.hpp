// SPDX-License-Identifier: Apache-2.0
// Asks a server's /metrics in regular intervals, from a thread of its own, so
// that reading them holds up no request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loadgen/client/server/metrics_text.hpp"
#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

class ServerSampler {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Begins at once.
  ServerSampler(ServerAddress server, std::string api_key, std::chrono::milliseconds period);
  ~ServerSampler();
  ServerSampler(const ServerSampler&) = delete;
  ServerSampler& operator=(const ServerSampler&) = delete;

  // Ends the thread. All samples, with times from `begin`; those before it are
  // left out. Empty if the server has no metrics that we know.
  std::vector<ServerSample> stop(Time begin);

 private:
  void run();
  bool wait_until(Time time);  // false: stop
  void take_sample();

  const ServerAddress server_;
  const std::string api_key_;
  const std::chrono::milliseconds period_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool should_stop_ = false;  // by mutex_
  // The thread's own until it has ended.
  std::vector<std::pair<Time, ServerSample>> samples_;
  BatchCounters batches_;
  std::thread thread_;
};

}  // namespace troupe::loadgen
