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
#include "http/server/answers_under_way.hpp"
#include "http/server/detached_answer.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {

class DetachedAnswers {
 public:
  // The engine must outlive the answers, the limits and metrics this. under_way: a drain
  // waits for streams, and leaves what is in the background to the next process.
  DetachedAnswers(Engine& engine, const Limits& limits, Metrics& metrics,
                  std::shared_ptr<AnswersUnderWay> under_way)
      : engine_(engine), limits_(limits), metrics_(metrics), under_way_(std::move(under_way)) {}

  // Null: there is no room. Answers that have ended make some, those first that ended first.
  // A flow may have as much as is still free, so that one alone gets half.
  std::shared_ptr<DetachedAnswer> start(DetachedAnswer::About about, GenerationRequest request);
  // One that is not even begun; it is there to be asked for.
  void fail(DetachedAnswer::About about, ApiError error);
  // Null: there is none of this tenant.
  std::shared_ptr<DetachedAnswer> find(std::string_view tenant, std::string_view id) const;
  void forget(std::string_view id);
  // All but those in the background.
  void cancel_streams();
  // To be called now and then.
  void tick(DetachedAnswer::Clock::time_point now);

 private:
  using Answers = std::map<std::string, std::shared_ptr<DetachedAnswer>, std::less<>>;

  bool make_room(const std::string& flow);
  void publish();

  Engine& engine_;
  const Limits& limits_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  const std::shared_ptr<AnswersUnderWay> under_way_;
  Answers answers_;
  DetachedAnswer::Clock::time_point next_tick_ = {};
};

}  // namespace troupe
