// SPDX-License-Identifier: Apache-2.0
#include "actors/actor_engine.hpp"

#include <string>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cache_tier.hpp"
#include "actors/prompt_encoder.hpp"
#include "actors/request.hpp"
#include "actors/response_store.hpp"
#include "actors/scheduler.hpp"

namespace troupe {

ActorEngine::ActorEngine(caf::actor_system& system, ServedModel model, DeviceFactory make_device,
                         EngineOptions options, Metrics& metrics, ActorEngineSettings settings)
    : system_(system), seeds_(settings.seed) {
  environment_ = std::make_shared<const ActorEnvironment>(
      ActorEnvironment{.model = std::move(model),
                       .options = options,
                       .metrics = metrics,
                       .tracer = settings.tracer,
                       .board = std::make_shared<StatusBoard>(),
                       .registry = std::make_shared<RequestRegistry>(),
                       .census = std::make_shared<ActorCensus>(),
                       .has_threads = settings.has_threads});
  const SpawnGuard guard;
  actors_.tier =
      system_.spawn(make_cache_tier, environment_,
                    CacheTierOptions{.secret = settings.secret, .hash_bits = options.cache.page_hash_bits});
  actors_.scheduler = system_.spawn(make_scheduler, environment_, actors_.tier);
  actors_.encoder = spawn_on_thread(system_, settings.has_threads, make_prompt_encoder, environment_);
  if (options.store.directory)
    actors_.store =
        spawn_on_thread(system_, settings.has_threads, make_response_store, environment_, actors_.tier);
  supervisor_ = system_.spawn(make_supervisor, environment_, std::move(make_device), actors_);
  // Nobody supervises the supervisor: its end is the engine's.
  supervisor_->attach_functor([environment = environment_](const caf::error&) {
    fail_engine(*environment, "the supervisor has died");
  });
}

RequestId ActorEngine::submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  const SpawnGuard guard;
  const RequestId id = ++last_request_;
  RequestStart start;
  start.id = id;
  start.arrived = system_.clock().now();
  start.refusal = find_refusal();
  start.drawn_seed = draw_seed();
  start.request = std::make_shared<const GenerationRequest>(std::move(request));
  if (environment_->registry->size() == 0) environment_->board->mark_progress(start.arrived);
  start.stream = std::make_shared<ResponseStream>(id, std::move(sink), environment_->registry,
                                                  environment_->board, environment_->metrics);
  const RequestActor actor = system_.spawn(
      make_request, environment_,
      RequestPeers{.scheduler = actors_.scheduler, .encoder = actors_.encoder, .store = actors_.store},
      std::move(start));
  environment_->registry->add(id, actor);
  caf::anon_send(actor, BeginRequest{});
  // Had the engine failed since, nobody would tell the newcomer.
  if (environment_->board->state() == EngineState::kFailed)
    environment_->registry->fail(id,
                                 {.kind = ApiErrorKind::kUnavailable, .message = "The engine has failed."});
  return id;
}

void ActorEngine::look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink) {
  auto reply = std::make_shared<StoreReply>(std::move(sink));
  if (!actors_.store) return reply->fail(nothing_is_kept(ApiErrorKind::kResponseNotFound));
  caf::anon_send(actors_.store, AnswerQuery{.query = std::move(query), .reply = std::move(reply)});
}

std::optional<ApiError> ActorEngine::find_refusal() const {
  const StatusBoard& board = *environment_->board;
  switch (board.state()) {
    case EngineState::kDraining:
      return ApiError{.kind = ApiErrorKind::kUnavailable,
                      .message = "The server is shutting down and takes no new requests."};
    case EngineState::kFailed:
      return ApiError{.kind = ApiErrorKind::kUnavailable,
                      .message = "The engine has failed: " + board.failure() + "."};
    case EngineState::kStopped:
      return ApiError{.kind = ApiErrorKind::kUnavailable, .message = "The engine has stopped."};
    case EngineState::kStarting:
    case EngineState::kReady: break;
  }
  const std::uint32_t limit = environment_->options.max_waiting;
  if (board.num_unadmitted.load() >= limit)
    return ApiError{.kind = ApiErrorKind::kOverloaded,
                    .message = "The server has " + std::to_string(limit) +
                               " requests waiting, which is its limit; try again later."};
  return std::nullopt;
}

std::uint64_t ActorEngine::draw_seed() {
  const std::lock_guard lock(seeds_mutex_);
  return seeds_();
}

EngineStatus ActorEngine::status() const { return environment_->board->read(system_.clock().now()); }

void ActorEngine::flush(std::shared_ptr<const void> waiting) {
  caf::anon_send(actors_.scheduler, FlushPages{std::move(waiting)});
}

void ActorEngine::stop() {
  environment_->board->become_stopped();
  send_urgent(supervisor_, StopActors{});
  // Should there be no supervisor any more.
  send_stop(actors_.encoder);
  send_stop(actors_.store);
  send_stop(actors_.scheduler);
  send_stop(actors_.tier);
  supervisor_ = nullptr;
  actors_ = {};
}

}  // namespace troupe
