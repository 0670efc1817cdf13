// SPDX-License-Identifier: Apache-2.0
#include "actors/beam_request.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/reports/seconds.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "telemetry/log.hpp"
#include "text/detokenizer.hpp"

namespace troupe {

RequestActor::behavior_type make_beam_request(BeamRequestState::Self self, Environment environment,
                                              BeamPeers peers, BeamStart start) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(peers), std::move(start));
  return {
      [self](const BeginRequest&) { self->state.begin_request(); },
      [self](const CancelRequest&) { self->state.cancel(); },
      [](const ResumeRequest&) {},
      [](const ConversationRead&) {},
      [self](const PromptEncoded& encoded) { self->state.take_prompt(encoded); },
      [self](const Admitted&) { self->state.take_admission(); },
      [self](const SequenceStarted& message) { self->state.take_started(message); },
      [](const SequenceStopped&) {},  // its step is computed again
      [](const ReservationChanged&) {},
      [self](const NewToken& token) { self->state.take_token(token); },
      [](const ScorePrompt&) {},
      [](const Encoded&) {},
      [](const ResponseSaved&) {},
      [](const RequestJournaled&) {},
      [](const JournalEnded&) {},
      [self](const RequestFailed& failed) { self->state.fail(failed.error); },
  };
}

void BeamRequestState::initialize(Self self, Environment environment, BeamPeers peers, BeamStart start) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  peers_ = std::move(peers);
  start_ = std::move(start);
  trace_.emplace(start_.request, environment_->tracer, start_.arrived);
}

BeamRequestState::~BeamRequestState() {
  if (is_abandoned_) is_abandoned_->store(true);
  if (!trace_ || trace_->has_ended()) return;
  try {
    end_trace({.reason = FinishReason::kError, .error = ApiError{}, .usage = usage_});
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a request's end was not recorded", {{"reason", error.what()}});
  }
}

void BeamRequestState::begin_request() {
  if (start_.refusal) return fail(*start_.refusal);
  if (!model().has_pages())
    return fail({.kind = ApiErrorKind::kInvalidRequest,
                 .message = "The model " + model().name + " keeps no pages, which a search shares.",
                 .field = "use_beam_search"});
  const PromptTerms terms{.limits = environment_->board->serving_limits(start_.request->model)};
  if (const auto error = refuse_unencoded(model(), *start_.request, terms.limits)) return fail(*error);
  const auto num_bytes = prompt_text_bytes(*start_.request);
  if (num_bytes > kShortPromptBytes) return encode_elsewhere(num_bytes);
  const auto encoded = encode_prompt(model(), *start_.request, nullptr, terms);
  if (const auto* error = std::get_if<ApiError>(&encoded)) return fail(*error);
  begin_search(std::get<EncodedPrompt>(encoded));
}

void BeamRequestState::encode_elsewhere(std::size_t num_bytes) {
  text_lease_ = TextQuota::take(environment_->prompt_text, start_.request->flow, num_bytes);
  if (!text_lease_)
    return fail({.kind = ApiErrorKind::kOverloaded,
                 .message = "The server holds as many long prompts as it may; try again later."});
  trace_->begin_encoding(self_->clock().now());
  is_abandoned_ = std::make_shared<std::atomic<bool>>(false);
  self_->send(peers_.encoder,
              EncodePrompt{.sequence = start_.first_id,
                           .num_bytes = num_bytes,
                           .request = start_.request,
                           .conversation = nullptr,
                           .is_abandoned = is_abandoned_,
                           .deadline = start_.arrived + environment_->options.serving.max_queue_time});
}

void BeamRequestState::take_prompt(const PromptEncoded& encoded) {
  if (is_over()) return;
  is_abandoned_ = nullptr;
  if (!encoded.prompt) return fail(encoded.error);
  begin_search(*encoded.prompt);
}

void BeamRequestState::begin_search(const EncodedPrompt& prompt) {
  const GenerationRequest& request = *start_.request;
  prompt_ = prompt.tokens;
  end_tokens_ = request.stop_token_ids;
  end_tokens_.insert(end_tokens_.end(), prompt.end_tokens.begin(), prompt.end_tokens.end());
  if (!request.ignore_eos)
    end_tokens_.insert(end_tokens_.end(), model().eos_tokens.begin(), model().eos_tokens.end());
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  if (const auto refused = refusal()) return fail(*refused);
  if (!charge_tenant()) return;
  trace_->begin_waiting(self_->clock().now());
  search_.emplace(BeamTerms{.width = wish().width,
                            .max_tokens = request.max_tokens.value_or(UINT32_MAX),
                            .length_penalty = wish().length_penalty,
                            .stop = wish().stop,
                            .end_tokens = end_tokens_});
  step();
}

// A device gives so many of the most likely tokens.
std::optional<ApiError> BeamRequestState::refusal() const {
  constexpr auto kMost = static_cast<std::size_t>(kMaxTopLogprobs);
  if (wish().width + end_tokens_.size() <= kMost) return std::nullopt;
  return ApiError{.kind = ApiErrorKind::kInvalidRequest,
                  .message = "Beams and tokens that end an answer are at most " + std::to_string(kMost) +
                             "; these are " + std::to_string(wish().width) + " and " +
                             std::to_string(end_tokens_.size()) + ".",
                  .field = wish().width > wish().num_answers ? "best_of" : "n"};
}

// False: a limit of its tenant, and the request has failed.
bool BeamRequestState::charge_tenant() {
  if (!start_.stream->tab()) return true;
  const auto limits = environment_->board->serving_limits(start_.request->model);
  const std::uint64_t max_drawn = limits.max_drawn(prompt_.size(), start_.request->max_tokens);
  const auto refused =
      start_.stream->charge_prompt(prompt_.size(), max_drawn * wish().width, self_->clock().now());
  if (refused) fail(*refused);
  return !refused;
}

// Each open beginning wants to know what is likely behind it.
void BeamRequestState::step() {
  behind_.assign(search_->open().size(), {});
  for (std::size_t beam = 0; beam < behind_.size(); ++beam) {
    auto ticket = std::make_shared<const AdmissionTicket>(ticket_of(beam));
    with_scheduler_.insert(ticket->sequence);
    self_->send(peers_.scheduler, Admit{std::move(ticket)});
  }
}

AdmissionTicket BeamRequestState::ticket_of(std::size_t beam) const {
  const GenerationRequest& request = *start_.request;
  AdmissionTicket ticket;
  ticket.sequence = start_.first_id + beam;
  ticket.model = request.model;
  ticket.prompt = prompt_;
  ticket.drawn = search_->open()[beam].tokens;
  ticket.sampling.temperature = 0.0F;
  ticket.sampling.top_logprobs = static_cast<std::int32_t>(search_->num_continuations());
  ticket.max_tokens = static_cast<std::uint32_t>(ticket.drawn.size() + 1);
  ticket.end_tokens = end_tokens_;
  ticket.is_search_step = true;
  ticket.cache_salt = request.cache_salt;
  ticket.cache_quota = request.cache_quota;
  ticket.has_begun = has_begun_;
  ticket.flow = request.flow;
  if (environment_->tracer && trace_->context().is_sampled) ticket.trace = trace_->context();
  return ticket;
}

void BeamRequestState::take_admission() {
  if (is_over() || has_begun_) return;
  start_.stream->mark_admitted();
  usage_.prompt_tokens = static_cast<std::uint32_t>(prompt_.size());
  search_->limit(most_tokens());
}

// As the core counts them, which has a device now: of the answer.
std::uint32_t BeamRequestState::most_tokens() const {
  std::size_t num_known = prompt_.size();
  std::size_t most = environment_->board->serving_limits(start_.request->model).longest_sequence();
  if (const auto source = model().source()) {
    num_known += source->answer_begins.size() + (source->source_end >= 0 ? 1 : 0);
    most = std::min<std::size_t>(most, num_known - source->answer_begins.size() + source->max_answer);
  }
  return static_cast<std::uint32_t>(most - std::min(most, num_known));
}

// The trace has the first turn; those of later steps overlap.
void BeamRequestState::take_started(const SequenceStarted& message) {
  if (is_over() || std::exchange(has_begun_, true)) return;
  start_.stream->keep_charges();
  trace_->mark_accepted();
  trace_->take_started(message);
  start_.stream->accept(usage_.prompt_tokens);
}

void BeamRequestState::take_token(const NewToken& token) {
  if (is_over() || with_scheduler_.erase(token.sequence) == 0) return;
  const auto beam = static_cast<std::size_t>(token.sequence - start_.first_id);
  const std::size_t place = search_->open()[beam].tokens.size() + 1;
  if (!token.logprobs || token.index != place)
    return fail({.message = "The device did not say what is likely at place " + std::to_string(place) +
                            " of an answer."});
  for (const RankedToken& ranked : token.logprobs->top)
    behind_[beam].push_back({.token = ranked.id, .logprob = ranked.logprob});
  if (place == 1) note_first_token(token);
  if (!with_scheduler_.empty()) return;
  const TimePoint now = self_->clock().now();
  trace_->take_token(now, token.batches);
  if (TenantTab* const tab = start_.stream->tab()) tab->use(behind_.size(), now);
  search_->advance(behind_);
  search_->is_over() ? finish() : step();
}

void BeamRequestState::note_first_token(const NewToken& token) {
  Metrics& metrics = environment_->metrics;
  const TimePoint now = self_->clock().now();
  usage_.cached_tokens = token.cached_tokens;
  metrics.time_to_first_token.observe(in_seconds(now - start_.arrived));
  metrics.prefill_time.observe(in_seconds(now - token.started));
  metrics.prompt_tokens.add(usage_.prompt_tokens);
  metrics.cached_prompt_tokens.add(usage_.cached_tokens);
  metrics.computed_prompt_tokens.add(usage_.prompt_tokens - usage_.cached_tokens);
}

void BeamRequestState::finish() {
  auto answers = std::make_shared<std::vector<FoundAnswer>>();
  for (const BeamSearch::Answer& answer : search_->best(wish().num_answers)) {
    answers->push_back(found(answer));
    usage_.completion_tokens += answers->back().finished.usage.completion_tokens;
  }
  if (answers->empty()) return fail({.message = "The device finds no token possible."});
  observe_end(self_->clock().now());
  Finished finished{
      .reason = answers->front().finished.reason, .stop_string = {}, .stop_token = {}, .usage = usage_};
  end_trace({.reason = finished.reason, .error = {}, .usage = usage_});
  finished.timings = trace_->timings();
  finished.found = std::move(answers);
  start_.stream->finish(std::move(finished));
  leave();
}

FoundAnswer BeamRequestState::found(const BeamSearch::Answer& answer) const {
  StreamingDetokenizer detokenizer(*model().tokenizer);
  if (!model().source()) detokenizer.follow(prompt_);
  std::string text;
  for (const std::int32_t token : answer.tokens) text += detokenizer.push(token);
  text += detokenizer.finish();
  Finished finished{.reason = answer.end_token ? FinishReason::kStop : FinishReason::kLength,
                    .stop_string = {},
                    .stop_token = {},
                    .usage = usage_};
  finished.usage.completion_tokens =
      static_cast<std::uint32_t>(answer.tokens.size() + (answer.end_token ? 1 : 0));
  const auto& ids = start_.request->stop_token_ids;
  if (answer.end_token && std::find(ids.begin(), ids.end(), *answer.end_token) != ids.end())
    finished.stop_token = answer.end_token;
  return {.text = std::move(text), .finished = std::move(finished)};
}

void BeamRequestState::observe_end(TimePoint now) const {
  Metrics& metrics = environment_->metrics;
  metrics.generation_tokens.add(usage_.completion_tokens);
  metrics.end_to_end_latency.observe(in_seconds(now - start_.arrived));
  metrics.prompt_length.observe(usage_.prompt_tokens);
  metrics.generation_length.observe(usage_.completion_tokens);
  metrics.asked_choices.observe(wish().num_answers);
  if (start_.request->max_tokens) metrics.asked_max_tokens.observe(*start_.request->max_tokens);
}

void BeamRequestState::cancel() {
  if (is_over()) return;
  end_trace({.reason = FinishReason::kCancelled, .error = {}, .usage = usage_});
  start_.stream->finish({.reason = FinishReason::kCancelled,
                         .stop_string = {},
                         .stop_token = {},
                         .usage = usage_,
                         .timings = trace_->timings()});
  leave();
}

void BeamRequestState::fail(const ApiError& error) {
  if (is_over()) return;
  end_trace({.reason = FinishReason::kError, .error = error, .usage = usage_});
  start_.stream->fail(error);
  leave();
}

// Before the client is told: whatever happens then, nothing of it is lost.
void BeamRequestState::end_trace(RequestOutcome outcome) {
  start_.place.reset();
  trace_->end(self_->clock().now(), std::move(outcome));
  record_request(*trace_, model().name);
  log_request(*trace_, environment_->options.logs_requests);
}

void BeamRequestState::leave() {
  if (is_abandoned_) {
    std::exchange(is_abandoned_, nullptr)->store(true);
    send_urgent(peers_.encoder, DropPrompt{start_.first_id});
  }
  for (const SequenceId sequence : std::exchange(with_scheduler_, {}))
    send_urgent(peers_.scheduler, StopSequence{sequence});
  self_->quit();
}

}  // namespace troupe
