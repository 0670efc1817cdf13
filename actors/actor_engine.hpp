// SPDX-License-Identifier: Apache-2.0
// The engine without its threads: the actors of its models, wired together in an
// actor system that its caller owns. Engine gives it a real one; tests give
// it one with a schedule and a clock of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/actor_rules.hpp"
#include "actors/engine.hpp"
#include "actors/engine_door.hpp"
#include "actors/message_types.hpp"
#include "actors/request/answer/response_stream.hpp"
#include "actors/request/request_registry.hpp"
#include "actors/supervisor.hpp"
#include "policy/health/pulse_watch.hpp"
#include "policy/pages/page_key.hpp"

namespace troupe {

struct ActorEngineSettings {
  bool has_threads = true;   // false: nothing is detached
  std::uint64_t seed = 0;    // of the seeds that requests without one get
  PageSecret secret;         // of the tenants' names
  Tracer* tracer = nullptr;  // outlives the engine
};

// submit, look_up, cancel, resume and the observers: any thread.
class ActorEngine {
 public:
  ActorEngine(caf::actor_system& system, std::vector<EngineModel> models, EngineOptions options,
              Metrics& metrics, ActorEngineSettings settings);

  RequestId embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink);
  RequestId submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink);
  void end_journal(std::string response);
  void look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink);
  void cancel(RequestId id) { environment_->registry->cancel(id); }
  void resume(RequestId id) { environment_->registry->resume(id); }
  EngineStatus status() const { return environment_->board->read(); }
  // As Engine::watch().
  void watch(std::chrono::steady_clock::time_point now, bool is_sign_wanted = false);
  // `waiting` is let go of when what is to be on disk is there.
  void flush(std::shared_ptr<const void> waiting);

  // Asks the actors to end; the handles to them are let go of.
  void stop();

  const ActorEnvironment& environment() const { return *environment_; }
  const SupervisedActors& actors() const { return actors_; }
  const SupervisorActor& supervisor() const { return supervisor_; }

 private:
  RequestId refuse_unknown_model(ResponseSink& sink);
  // As submit(), of a request with `beams`.
  RequestId search(GenerationRequest request, std::shared_ptr<ResponseSink> sink);
  // A pass of the flow's, unless the request is refused already. Sets the refusal where there is none.
  DoorPass enter(const std::string& flow, std::optional<ApiError>& refusal);
  std::shared_ptr<ResponseStream> open_stream(RequestId id, std::shared_ptr<ResponseSink> sink, DoorPass pass,
                                              std::shared_ptr<TenantTab> tab);
  void launch(RequestId id, const RequestActor& actor);
  std::optional<ApiError> find_refusal(ModelIndex model, ModelKind kind) const;
  ApiError overload() const;
  std::uint64_t draw_seed();

  caf::actor_system& system_;
  Environment environment_;
  SupervisedActors actors_;
  SupervisorActor supervisor_;
  PulseWatch pulse_;  // of the thread that calls watch()
  std::atomic<RequestId> last_request_{0};
  std::mutex seeds_mutex_;
  std::mt19937_64 seeds_;
};

}  // namespace troupe
