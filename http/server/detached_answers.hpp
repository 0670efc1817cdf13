// SPDX-License-Identifier: Apache-2.0
// The answers that go on without their clients, by id: bounded in number, bytes and
// time (Limits). All methods may be called from any thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/limits.hpp"
#include "http/server/detached_answer.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {

class DetachedAnswers {
 public:
  // The engine must outlive the answers, the limits and metrics this.
  DetachedAnswers(Engine& engine, const Limits& limits, Metrics& metrics)
      : engine_(engine), limits_(limits), metrics_(metrics) {}

  // Null: there is no room. Answers that have ended make some, the oldest first.
  std::shared_ptr<DetachedAnswer> start(DetachedAnswer::About about, GenerationRequest request);
  // One that is not even begun; it is there to be asked for.
  void fail(DetachedAnswer::About about, ApiError error);
  // Null: there is none of this tenant.
  std::shared_ptr<DetachedAnswer> find(std::string_view tenant, std::string_view id) const;
  void forget(std::string_view id);
  // To be called now and then.
  void tick(DetachedAnswer::Clock::time_point now);

 private:
  bool make_room();
  void publish();

  Engine& engine_;
  const Limits& limits_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<DetachedAnswer>, std::less<>> answers_;
  DetachedAnswer::Clock::time_point next_tick_ = {};
};

}  // namespace troupe
