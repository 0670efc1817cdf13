// SPDX-License-Identifier: Apache-2.0
// The engine without its threads: the actors of one model, wired together in an
// actor system that somebody else owns. Engine gives it a real one; tests give
// it one whose schedule and clock they decide.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>

#include <caf/actor_system.hpp>

#include "actors/actor_rules.hpp"
#include "actors/engine.hpp"
#include "actors/message_types.hpp"
#include "actors/request_registry.hpp"
#include "actors/supervisor.hpp"
#include "policy/page_key.hpp"

namespace troupe {

struct ActorEngineSettings {
  bool has_threads = true;   // false: nothing is detached
  std::uint64_t seed = 0;    // of the seeds that requests without one get
  PageSecret secret;         // of the prefix index
  Tracer* tracer = nullptr;  // outlives the engine
};

// submit, look_up, cancel, resume and the observers: any thread.
class ActorEngine {
 public:
  ActorEngine(caf::actor_system& system, ServedModel model, DeviceFactory make_device, EngineOptions options,
              Metrics& metrics, ActorEngineSettings settings);

  RequestId submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink);
  void look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink);
  void cancel(RequestId id) { environment_->registry->cancel(id); }
  void resume(RequestId id) { environment_->registry->resume(id); }
  EngineStatus status() const;
  // `waiting` is let go of when what is to be on disk is there.
  void flush(std::shared_ptr<const void> waiting);

  // Asks the actors to end; the handles to them are let go of.
  void stop();

  const ActorEnvironment& environment() const { return *environment_; }
  const SupervisedActors& actors() const { return actors_; }
  const SupervisorActor& supervisor() const { return supervisor_; }

 private:
  std::optional<ApiError> find_refusal() const;
  std::uint64_t draw_seed();

  caf::actor_system& system_;
  Environment environment_;
  SupervisedActors actors_;
  SupervisorActor supervisor_;
  std::atomic<RequestId> last_request_{0};
  std::mutex seeds_mutex_;
  std::mt19937_64 seeds_;
};

}  // namespace troupe
