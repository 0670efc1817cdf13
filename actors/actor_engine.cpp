// SPDX-License-Identifier: Apache-2.0
#include "actors/actor_engine.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/beam_request.hpp"
#include "actors/cache_tier.hpp"
#include "actors/embedding.hpp"
#include "actors/lengths/predictor.hpp"
#include "actors/prompt_encoder.hpp"
#include "actors/request.hpp"
#include "actors/request/answer/answer_splitting.hpp"
#include "actors/request/answer/output_guide.hpp"
#include "actors/request/answer/shared_vectors.hpp"
#include "actors/request/answer/text_quota.hpp"
#include "actors/response_store.hpp"
#include "actors/scheduler.hpp"
#include "actors/turn_keeping.hpp"
#include "engine/queue_full.hpp"

namespace troupe {
namespace {

bool is_bound_to_form(const ServedModel& model, const GenerationRequest& request) {
  return request.form || binds_calls(model, request);
}

OutputForms::Share share_of(const GenerationRequest& request) {
  if (must_be_bound(request)) return OutputForms::Share::kDemand;
  return has_strict_tool(request) ? OutputForms::Share::kStrictTools : OutputForms::Share::kTools;
}

// Null: it is bound to no form, or there is no room.
std::shared_ptr<const void> take_place(OutputForms& forms, const GenerationRequest& request,
                                       std::shared_ptr<const void> left) {
  if (left) return left;
  const auto& run = request.background;
  if (run && run->unbound_from == 0U) return nullptr;
  return forms.take_place(share_of(request), request.flow, run && run->is_journaled);
}

// As it was in an earlier process.
bool may_be_unbound(const GenerationRequest& request) {
  const bool was_unbound = request.background && request.background->unbound_from == 0U;
  return !must_be_bound(request) && (was_unbound || !needs_form_place(request));
}

ApiError no_form_place() {
  return {.kind = ApiErrorKind::kOverloaded,
          .message =
              "As many answers of a given form are under way as there may be, in all or of one client; "
              "try again when one of them has ended."};
}

// Beams of all open searches, as each is a sequence. Where no other is open, there is room for what one
// request may ask for.
std::uint32_t max_beams(const ServingSettings& serving) {
  return std::max(8 * kMostBeams, serving.max_waiting);
}

ApiError too_many_searches(const ServingSettings& serving, std::uint32_t width) {
  return {.kind = ApiErrorKind::kOverloaded,
          .message = "Searches that are open may have " + std::to_string(max_beams(serving)) +
                     " beams, of which each client has its share; with the " + std::to_string(width) +
                     " of this one there would be more. Try again when one of them has ended."};
}

std::shared_ptr<SharedVectors> make_vectors(const ServingSettings& serving, const Metrics& metrics) {
  if (serving.vector_cache_bytes == 0) return nullptr;
  return std::make_shared<SharedVectors>(serving.vector_cache_bytes, serving.keep_vectors_for, metrics);
}

}  // namespace

ActorEngine::ActorEngine(caf::actor_system& system, std::vector<EngineModel> models, EngineOptions options,
                         Metrics& metrics, ActorEngineSettings settings)
    : system_(system), seeds_(settings.seed) {
  const std::size_t num_models = models.size();
  auto turns = std::make_shared<TurnMemory>(options.turn_memory);
  auto kept_turns = keep_turns(options, turns, models);
  environment_ = std::make_shared<const ActorEnvironment>(
      ActorEnvironment{.models = std::move(models),
                       .options = options,
                       .metrics = metrics,
                       .tracer = settings.tracer,
                       .board = std::make_shared<StatusBoard>(num_models),
                       .registry = std::make_shared<RequestRegistry>(),
                       .census = std::make_shared<ActorCensus>(),
                       .door = std::make_shared<EngineDoor>(options.serving.max_waiting),
                       .searches = std::make_shared<EngineDoor>(max_beams(options.serving)),
                       .prompt_text = std::make_shared<TextQuota>(options.max_prompt_bytes),
                       .vectors = make_vectors(options.serving, metrics),
                       .forms = std::make_shared<OutputForms>(num_models),
                       .turns = std::move(turns),
                       .kept_turns = std::move(kept_turns),
                       .has_threads = settings.has_threads});
  environment_->board->num_workers = options.num_workers;
  metrics.have_workers(options.num_workers);
  const SpawnGuard guard;
  actors_.tier = system_.spawn(make_cache_tier, environment_);
  if (options.serving.foresees_lengths())
    actors_.predictor = spawn_on_thread(system_, settings.has_threads, make_predictor, environment_);
  actors_.scheduler =
      system_.spawn(make_scheduler, environment_, actors_.tier, actors_.predictor, settings.secret);
  actors_.encoder = system_.spawn(make_prompt_encoder, environment_);
  if (options.store.directory)
    actors_.store = spawn_on_thread(system_, settings.has_threads, make_response_store, environment_,
                                    actors_.scheduler, actors_.tier);
  supervisor_ = system_.spawn(make_supervisor, environment_, actors_);
  // Nobody supervises the supervisor: its end is the engine's.
  supervisor_->attach_functor([environment = environment_](const caf::error&) {
    fail_engine(*environment, "the supervisor has died");
  });
}

RequestId ActorEngine::refuse_unknown_model(ResponseSink& sink) {
  sink.deliver(Failed{{.kind = ApiErrorKind::kModelNotFound, .message = "There is no such model."}});
  return ++last_request_;
}

RequestId ActorEngine::submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  if (request.model >= environment_->models.size()) return refuse_unknown_model(*sink);
  if (request.beams && request.use == PromptUse::kRun) return search(std::move(request), std::move(sink));
  const SpawnGuard guard;
  const RequestId id = ++last_request_;
  RequestStart start;
  start.id = id;
  start.arrived = system_.clock().now();
  const bool is_run = request.use == PromptUse::kRun;
  const ModelKind kind = environment_->models[request.model].served.kind;
  start.refusal = find_refusal(request.model, request.is_to_be_run() ? ModelKind::kGenerative : kind);
  if (!request.is_to_be_run()) request.wants_vector = kind != ModelKind::kGenerative;  // as its inputs are
  auto left_place = std::exchange(request.form_place, nullptr);
  // A request that was left the place of another answer to its client goes past the door: places are few.
  start.has_begun = left_place != nullptr;
  DoorPass pass = start.has_begun ? nullptr : enter(request.flow, start.refusal);
  start.stream = open_stream(id, std::move(sink), std::move(pass), std::exchange(request.tab, nullptr));
  start.drawn_seed = request.background ? request.background->seed : draw_seed();
  start.request = std::make_shared<const GenerationRequest>(std::move(request));
  const ServedModel& model = environment_->models[start.request->model].served;
  const bool wants_place = !start.refusal && is_run && is_bound_to_form(model, *start.request);
  if (wants_place) start.form_place = take_place(*environment_->forms, *start.request, std::move(left_place));
  if (wants_place && !start.form_place && !may_be_unbound(*start.request)) start.refusal = no_form_place();
  const RequestPeers peers{
      .scheduler = actors_.scheduler, .encoder = actors_.encoder, .store = actors_.store};
  const bool has_thread = start.form_place != nullptr && environment_->has_threads;
  launch(id, spawn_on_thread(system_, has_thread, make_request, environment_, peers, std::move(start)));
  return id;
}

RequestId ActorEngine::search(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  const SpawnGuard guard;
  BeamStart start;
  const std::uint32_t width = std::max(request.beams->width, std::uint32_t{1});
  start.first_id = last_request_.fetch_add(width) + 1;
  start.arrived = system_.clock().now();
  start.refusal = find_refusal(request.model, ModelKind::kGenerative);
  if (!start.refusal) {
    start.place = environment_->searches->enter(request.flow, width);
    if (!start.place) start.refusal = too_many_searches(environment_->options.serving, width);
  }
  DoorPass pass = enter(request.flow, start.refusal);
  if (start.refusal) start.place.reset();
  start.stream =
      open_stream(start.first_id, std::move(sink), std::move(pass), std::exchange(request.tab, nullptr));
  start.request = std::make_shared<const GenerationRequest>(std::move(request));
  const RequestId id = start.first_id;
  launch(id, system_.spawn(make_beam_request, environment_,
                           BeamPeers{.scheduler = actors_.scheduler, .encoder = actors_.encoder},
                           std::move(start)));
  return id;
}

RequestId ActorEngine::embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink) {
  if (request.model >= environment_->models.size()) return refuse_unknown_model(*sink);
  const SpawnGuard guard;
  EmbeddingStart start;
  const auto num_inputs = std::max<RequestId>(request.inputs.size(), 1);
  start.first_id = last_request_.fetch_add(num_inputs) + 1;
  start.arrived = system_.clock().now();
  const ModelKind kind = environment_->models[request.model].served.kind;
  start.refusal = find_refusal(request.model, kind == ModelKind::kGenerative ? ModelKind::kEmbedding : kind);
  DoorPass pass = enter(request.flow, start.refusal);
  start.stream =
      open_stream(start.first_id, std::move(sink), std::move(pass), std::exchange(request.tab, nullptr));
  start.request = std::make_shared<const EmbeddingRequest>(std::move(request));
  const RequestId id = start.first_id;
  launch(id, system_.spawn(make_embedding, environment_,
                           EmbeddingPeers{.scheduler = actors_.scheduler, .encoder = actors_.encoder},
                           std::move(start)));
  return id;
}

DoorPass ActorEngine::enter(const std::string& flow, std::optional<ApiError>& refusal) {
  if (refusal) return nullptr;
  DoorPass pass = environment_->door->enter(flow);
  if (!pass) refusal = overload();
  return pass;
}

std::shared_ptr<ResponseStream> ActorEngine::open_stream(RequestId id, std::shared_ptr<ResponseSink> sink,
                                                         DoorPass pass, std::shared_ptr<TenantTab> tab) {
  auto stream = std::make_shared<ResponseStream>(id, std::move(sink), environment_->registry,
                                                 environment_->board, environment_->metrics);
  stream->hold(std::move(pass));
  stream->charge_to(std::move(tab));
  return stream;
}

void ActorEngine::launch(RequestId id, const RequestActor& actor) {
  environment_->registry->add(id, actor);
  caf::anon_send(actor, BeginRequest{});
  // Had the engine failed since, nobody would tell the newcomer.
  if (environment_->board->state() == EngineState::kFailed)
    environment_->registry->fail(id,
                                 {.kind = ApiErrorKind::kUnavailable, .message = "The engine has failed."});
}

void ActorEngine::end_journal(std::string response) {
  if (actors_.store) caf::anon_send(actors_.store, EndJournal{.response = std::move(response)});
}

void ActorEngine::look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink) {
  auto reply = std::make_shared<StoreReply>(std::move(sink));
  if (!actors_.store) return reply->fail(nothing_is_kept(ApiErrorKind::kResponseNotFound));
  caf::anon_send(actors_.store, AnswerQuery{.query = std::move(query), .reply = std::move(reply)});
}

std::optional<ApiError> ActorEngine::find_refusal(ModelIndex model, ModelKind kind) const {
  const ServedModel& served = environment_->models[model].served;
  if (served.kind != kind)
    return ApiError{
        .kind = ApiErrorKind::kInvalidRequest,
        .message = "The model " + served.name +
                   (kind == ModelKind::kEmbedding ? " gives no embeddings." : " generates no text."),
        .field = "model"};
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
  return std::nullopt;
}

ApiError ActorEngine::overload() const {
  return {.kind = ApiErrorKind::kOverloaded,
          .message = queue_full_message(environment_->options.serving.max_waiting)};
}

std::uint64_t ActorEngine::draw_seed() {
  const std::lock_guard lock(seeds_mutex_);
  return seeds_();
}

void ActorEngine::watch(std::chrono::steady_clock::time_point now, bool is_sign_wanted) {
  StatusBoard& board = *environment_->board;
  const auto look = pulse_.look(now, board.pulse, is_sign_wanted || board.num_open > 0);
  board.has_pulse = look.finding == PulseWatch::Finding::kFine;
  if (look.ask) send_urgent(supervisor_, CheckPulse{*look.ask});
  if (look.finding == PulseWatch::Finding::kHopeless)
    fail_engine(*environment_, "its actors have not acted for a minute");
}

void ActorEngine::flush(std::shared_ptr<const void> waiting) {
  caf::anon_send(actors_.scheduler, FlushEverything{std::move(waiting)});
}

void ActorEngine::stop() {
  environment_->board->become_stopped();
  send_urgent(supervisor_, StopActors{});
  // Should there be no supervisor any more.
  send_stop(actors_.encoder);
  send_stop_behind_all(actors_.store);
  send_stop(actors_.scheduler);
  send_stop(actors_.predictor);
  send_stop(actors_.tier);
  supervisor_ = nullptr;
  actors_ = {};
}

}  // namespace troupe
