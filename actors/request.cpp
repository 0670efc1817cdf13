// SPDX-License-Identifier: Apache-2.0
#include "actors/request.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/reports/seconds.hpp"
#include "actors/request/answer/answer_splitting.hpp"
#include "actors/request/prompt/conversation_prompt.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "actors/response_store.hpp"
#include "telemetry/log.hpp"
#include "text/answer/harmony_parser.hpp"

namespace troupe {
namespace {

// Log-probabilities of one prompt.
constexpr std::size_t kMaxPromptScores = std::size_t{1} << 18;
// Of a prompt, in one turn of the actor: a few hundred microseconds.
constexpr std::size_t kTokensScoredAtOnce = 2048;
// An answer has at most so many scores, of all its prompts: 75 MB before their JSON.
constexpr std::size_t kMaxScores = std::size_t{1} << 20;
// An answer's scores up to this size are not held against the quota of all answers.
constexpr std::size_t kFewScoreBytes = std::size_t{1} << 20;

// A page of KV: what a later process computes again is not much more.
constexpr std::size_t kJournaledAtOnce = 32;

std::vector<std::int32_t> each_once(std::vector<std::int32_t> tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

// Unless the client has biased as many others as may be.
void forbid(std::int32_t token, std::vector<TokenBias>& biased) {
  constexpr float kNever = -1e30F;
  const auto has_id = [token](const TokenBias& bias) { return bias.id == token; };
  const auto found = std::find_if(biased.begin(), biased.end(), has_id);
  if (found != biased.end()) {
    found->bias = kNever;
  } else if (biased.size() < kMaxBiases) {
    biased.push_back({.id = token, .bias = kNever});
  }
}

}  // namespace

RequestActor::behavior_type make_request(RequestState::Self self, Environment environment, RequestPeers peers,
                                         RequestStart start) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(peers), std::move(start));
  return {
      [self](const BeginRequest&) { self->state.begin_request(); },
      [self](const CancelRequest&) { self->state.cancel(); },
      [self](const ResumeRequest&) { self->state.resume(); },
      [self](const ConversationRead& read) { self->state.take_conversation(read); },
      [self](const PromptEncoded& prompt) { self->state.take_prompt(prompt); },
      [self](const Admitted&) { self->state.take_admission(); },
      [self](const SequenceStarted& message) { self->state.take_started(message); },
      [self](const SequenceStopped& message) { self->state.take_stopped(message); },
      [self](const ReservationChanged& message) { self->state.take_reservation(message); },
      [self](const NewToken& token) { self->state.take_token(token); },
      [self](const ScorePrompt&) { self->state.score_prompt(); },
      [](const Encoded&) {},  // of an embedding request's sequences (actors/embedding.hpp)
      [self](const RequestJournaled& journaled) { self->state.take_journaled(journaled); },
      [self](const JournalEnded&) { self->state.finish_cancelled(); },
      [self](const ResponseSaved& saved) { self->state.take_saved(saved); },
      [self](const RequestFailed& failed) { self->state.fail(failed.error); },
  };
}

void RequestState::initialize(Self self, Environment environment, RequestPeers peers, RequestStart start) {
  census_ = std::make_unique<CensusEntry>(environment->census);
  self_ = self;
  environment_ = std::move(environment);
  peers_ = std::move(peers);
  start_ = std::move(start);
  trace_.emplace(start_.request, environment_->tracer, start_.arrived);
}

RequestState::~RequestState() {
  if (is_abandoned_) is_abandoned_->store(true);
  set_paused(false);
  count_in(nullptr);
  if (!trace_ || trace_->has_ended()) return;
  try {
    end_trace({.reason = FinishReason::kError, .error = ApiError{}, .usage = usage_});
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a request's end was not recorded", {{"reason", error.what()}});
  }
}

void RequestState::begin_request() {
  if (start_.refusal) return fail(*start_.refusal);
  const auto& turn = start_.request->turn;
  if (turn && turn->must_be_stored && !peers_.store)
    return fail(nothing_is_kept(ApiErrorKind::kInvalidRequest, "store"));
  if (!find_guide()) return;
  if (turn && turn->is_stored && peers_.store) kept_.emplace(start_.request);
  if (!turn || turn->previous.empty()) return encode(nullptr);
  if (!peers_.store)
    return fail(nothing_is_kept(ApiErrorKind::kPreviousResponseNotFound, "previous_response_id"));
  count_in(&environment_->board->num_in_store);
  self_->send(peers_.store, ReadConversation{start_.request->tenant, turn->previous});
}

// When nothing is known to be wrong with it, and before its client hears that it was taken.
// A later process finds it there.
void RequestState::enter_journal() {
  const BackgroundRun& run = *start_.request->background;
  if (run.is_journaled) {
    journal_unbound();
    return take_journaled({});
  }
  const GenerationRequest& request = *start_.request;
  count_in(&environment_->board->num_in_store);
  self_->send(peers_.store, JournalRequest{std::make_shared<const JournaledAnswer>(
                                JournaledAnswer{.id = request.id,
                                                .tenant = request.tenant,
                                                .flow = request.flow,
                                                .created = request.turn->created,
                                                .seed = run.seed,
                                                .vocabulary = journaled_vocabulary(),
                                                .body = run.body,
                                                .unbound_from = unbound_from_})});
}

void RequestState::take_journaled(const RequestJournaled& journaled) {
  if (is_over()) return leave_journal();
  if (journaled.error) return fail(*journaled.error);
  count_in(nullptr);
  is_promised_ = true;
  start_.stream->note_journaled({.unbound_from = unbound_from_});
  ask_for_admission();
}

// The last token.
bool RequestState::is_of_earlier_process() const {
  const auto& run = start_.request->background;
  return run && usage_.completion_tokens <= ticket_->drawn.size();
}

void RequestState::journal_token(std::int32_t token) {
  if (is_of_earlier_process()) return;
  unjournaled_.push_back(token);
  if (unjournaled_.size() >= kJournaledAtOnce) flush_journal();
}

void RequestState::flush_journal() {
  const std::uint64_t first = usage_.completion_tokens - unjournaled_.size();
  self_->send(peers_.store, JournalTokens{.response = start_.request->id,
                                          .vocabulary = journaled_vocabulary(),
                                          .first = first,
                                          .tokens = std::exchange(unjournaled_, {})});
}

void RequestState::leave_journal() {
  if (start_.request->background && peers_.store)
    self_->send(peers_.store, EndJournal{.response = start_.request->id});
}

// False: the form can't be followed, and the request has failed.
bool RequestState::find_guide() {
  const auto& form = start_.request->form;
  if (!form) return true;
  auto guide = environment_->forms->guide(start_.request->model, model(), *form);
  if (const auto* error = std::get_if<ApiError>(&guide)) {
    fail(*error);
    return false;
  }
  guide_.emplace(std::get<OutputGuide>(std::move(guide)));
  return true;
}

// The same of calls. How the answer may begin depends on the prompt's end.
bool RequestState::find_call_guide(const std::vector<std::int32_t>& prompt) {
  const GenerationRequest& request = *start_.request;
  if (request.form || !binds_calls(model(), request)) return true;
  if (const auto& run = request.background; run && is_of_this_answer(*run)) unbound_from_ = run->unbound_from;
  if (!start_.form_place) {
    leave_unbound(environment_->metrics.unbound_place, 0);
    return true;
  }
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  const auto reading = answer_reading(model(), request, prompt);
  if (!reading || !reading->reads_calls) {
    fail({.kind = ApiErrorKind::kInvalidRequest,
          .message = "tool_choice can't demand a call of this model: its template has no format of calls.",
          .field = "tool_choice"});
    return false;
  }
  auto guide = environment_->forms->guide(
      request.model, model(), *reading,
      {.name = chat.demanded_tool, .is_for_one = chat.takes_one_call, .may_be_text = !chat.demands_call});
  if (const auto* error = std::get_if<ApiError>(&guide)) {
    const bool is_wish = !chat.demands_call && !chat.has_strict_tool;
    is_wish ? leave_unbound(environment_->metrics.unbound_schema, 0) : fail(*error);
    return is_wish;
  }
  if (replays_journaled() && is_unbound_at(static_cast<std::uint32_t>(request.background->tokens.size())))
    return true;
  if (allows_journaled(std::get<OutputGuide>(guide))) {
    guide_.emplace(std::get<OutputGuide>(std::move(guide)));
  } else if (chat.demands_call) {
    fail({.message =
              "The beginning of this answer, which an earlier process has drawn, can't become the call "
              "that tool_choice demands."});
    return false;
  } else {
    leave_unbound(environment_->metrics.unbound_earlier, 0);
  }
  return true;
}

// False: a place among tokens that are of no use here.
bool RequestState::is_of_this_answer(const BackgroundRun& run) const {
  return run.unbound_from == 0U || run.vocabulary == journaled_vocabulary();
}

// Besides the model's.
std::vector<std::int32_t> RequestState::own_ends(const EncodedPrompt& prompt) const {
  std::vector<std::int32_t> ends = start_.request->stop_token_ids;
  ends.insert(ends.end(), prompt.end_tokens.begin(), prompt.end_tokens.end());
  return ends;
}

// reason: counts it, unless an earlier process has.
void RequestState::leave_unbound(Counter& reason, std::uint32_t from) {
  if (unbound_from_) return;
  reason.add();
  unbound_from_ = from;
}

// Another process is to leave it unbound at the same place.
void RequestState::journal_unbound() {
  const auto& run = start_.request->background;
  if (run && peers_.store && unbound_from_ && run->unbound_from != unbound_from_)
    self_->send(peers_.store, JournalUnbound{.response = start_.request->id,
                                             .vocabulary = journaled_vocabulary(),
                                             .from = *unbound_from_});
}

// False: the process that drew the answer's beginning did not bind it, or by other rules.
bool RequestState::allows_journaled(OutputGuide guide) const {
  if (!replays_journaled()) return true;
  const auto& tokens = start_.request->background->tokens;
  return std::all_of(tokens.begin(), tokens.end(), [&](std::int32_t token) { return guide.take(token); });
}

// Log-probabilities are known of no token but those that are drawn here.
bool RequestState::replays_journaled() const {
  const GenerationRequest& request = *start_.request;
  return request.background && !request.sampling.wants_logprobs() &&
         request.background->vocabulary == journaled_vocabulary();
}

void RequestState::take_conversation(const ConversationRead& read) {
  if (is_over()) return;
  if (!read.conversation) return fail(read.error);
  encode(read.conversation);
}

void RequestState::encode(std::shared_ptr<const Conversation> conversation) {
  count_in(nullptr);
  const PromptTerms terms{.limits = environment_->board->serving_limits(start_.request->model),
                          .is_interrupted = {},
                          .memory = environment_->turns.get()};
  if (const auto error = refuse_unencoded(model(), *start_.request, terms.limits)) return fail(*error);
  const auto num_bytes = prompt_text_bytes(*start_.request, conversation.get());
  if (num_bytes > kShortPromptBytes) return encode_elsewhere(num_bytes, std::move(conversation));
  auto encoded = encode_prompt(model(), *start_.request, conversation.get(), terms);
  if (const auto* error = std::get_if<ApiError>(&encoded)) return fail(*error);
  admit(std::get<EncodedPrompt>(std::move(encoded)));
}

void RequestState::encode_elsewhere(std::size_t num_bytes, std::shared_ptr<const Conversation> conversation) {
  text_lease_ = TextQuota::take(environment_->prompt_text, start_.request->flow, num_bytes);
  if (!text_lease_)
    return fail({.kind = ApiErrorKind::kOverloaded,
                 .message = "The server holds as many long prompts as it may; try again later."});
  trace_->begin_encoding(self_->clock().now());
  is_abandoned_ = std::make_shared<std::atomic<bool>>(false);
  count_in(&environment_->board->num_encoding);
  self_->send(peers_.encoder,
              EncodePrompt{.sequence = start_.id,
                           .num_bytes = num_bytes,
                           .request = start_.request,
                           .conversation = std::move(conversation),
                           .is_abandoned = is_abandoned_,
                           .deadline = start_.arrived + environment_->options.serving.max_queue_time});
}

// It may be waiting for its turn, or under way.
void RequestState::stop_encoding() {
  if (!is_abandoned_) return;
  std::exchange(is_abandoned_, nullptr)->store(true);
  send_urgent(peers_.encoder, DropPrompt{start_.id});
}

void RequestState::take_prompt(const PromptEncoded& encoded) {
  if (is_over()) return;
  is_abandoned_ = nullptr;
  if (!encoded.prompt) return fail(encoded.error);
  admit(*encoded.prompt);
}

void RequestState::admit(EncodedPrompt prompt) {
  count_in(nullptr);
  if (start_.request->use == PromptUse::kJudge) return answer_judged(prompt.tokens.size());
  if (start_.request->use != PromptUse::kRun) return answer_encoded(std::move(prompt.tokens));
  if (!find_call_guide(prompt.tokens) || !lease_scores(prompt.tokens.size()) ||
      !charge_tenant(prompt.tokens.size()))
    return;
  if (guide_) guide_->may_end_with(own_ends(prompt));
  trace_->begin_waiting(self_->clock().now());
  if (kept_) kept_->take_prompt(prompt.tokens, prompt.num_inherited);
  if (prompt.parts) {
    observe_history(prompt);
    record_.emplace(std::move(*prompt.parts), start_.request->tenant);
  }
  ticket_ = std::make_shared<const AdmissionTicket>(make_ticket(std::move(prompt)));
  if (ticket_->drawn.empty()) free_ = ticket_->free_first;
  start_.request->background ? enter_journal() : ask_for_admission();
}

// The most alternatives a token whose log-probabilities are wanted; SamplingParameters::kNoLogprobs if none.
std::int32_t RequestState::num_alternatives() const {
  const GenerationRequest& request = *start_.request;
  const std::int32_t of_prompt = request.prompt_logprobs ? static_cast<std::int32_t>(*request.prompt_logprobs)
                                                         : SamplingParameters::kNoLogprobs;
  const std::int32_t of_rank = request.is_ranked ? 0 : SamplingParameters::kNoLogprobs;
  return std::max({request.sampling.top_logprobs, of_prompt, of_rank});
}

// Bounds what log-probabilities of prompts take, in one answer and in all. False: it is too
// much, and the request has failed.
bool RequestState::lease_scores(std::size_t num_prompt) {
  const GenerationRequest& request = *start_.request;
  if (!request.scores_prompt()) return true;
  const std::size_t num_each = 1 + static_cast<std::size_t>(num_alternatives());
  const std::size_t num_scores = num_prompt * num_each;
  const std::uint64_t num_own = std::uint64_t{num_scores} * request.num_score_copies;
  const std::uint64_t num_in_all =
      request.scores_of_answer ? request.scores_of_answer->add(num_own) : num_own;
  const std::size_t max_bytes = std::max(kFewScoreBytes, environment_->prompt_text->max_bytes_of_one());
  const std::size_t max_scores = std::min(kMaxScores, max_bytes / sizeof(LikelyToken));
  if (num_scores > kMaxPromptScores || num_in_all > max_scores) {
    fail({.kind = ApiErrorKind::kInvalidRequest,
          .message = "Log-probabilities of prompts are at most " + std::to_string(kMaxPromptScores) +
                     " of one and " + std::to_string(max_scores) +
                     " in an answer, alternatives included; this one has " + std::to_string(num_prompt) +
                     " tokens, each with " + std::to_string(num_each) + ", and its answer " +
                     std::to_string(num_in_all) + " or more.",
          .field = request.prompt_logprobs ? "prompt_logprobs" : "logprobs"});
    return false;
  }
  const std::size_t num_bytes = num_scores * sizeof(LikelyToken);
  if (num_in_all * sizeof(LikelyToken) <= kFewScoreBytes) return true;
  auto lease = TextQuota::take(environment_->prompt_text, request.flow, num_bytes);
  if (!lease) {
    fail({.kind = ApiErrorKind::kOverloaded,
          .message = "The server holds as many log-probabilities of prompts as it may; try again later."});
    return false;
  }
  scores_lease_ = std::make_shared<const TextLease>(std::move(*lease));
  return true;
}

// False: a limit of its tenant, and the request has failed. Other answers to the prompt are
// counted with the first.
bool RequestState::charge_tenant(std::size_t num_prompt) {
  const GenerationRequest& request = *start_.request;
  if (!start_.stream->tab() || request.num_drawn_answers == 0) return true;
  if (request.is_judged) {
    start_.stream->charge_judged(num_prompt, self_->clock().now());
    return true;
  }
  const auto limits = environment_->board->serving_limits(request.model);
  const std::uint64_t max_drawn = limits.max_drawn(num_prompt, request.max_tokens);
  const auto refusal =
      start_.stream->charge_prompt(num_prompt, max_drawn * request.num_drawn_answers, self_->clock().now());
  if (refusal) fail(*refusal);
  return !refusal;
}

void RequestState::ask_for_admission() {
  is_with_scheduler_ = true;
  self_->send(peers_.scheduler, Admit{ticket_});
}

// The end of a request that is not run.
void RequestState::answer_encoded(std::vector<std::int32_t> tokens) {
  usage_.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  auto answer = encoded_text(model(), *start_.request, std::move(tokens));
  if (const auto* error = std::get_if<ApiError>(&answer)) return fail(*error);
  end_trace({.reason = FinishReason::kStop, .error = {}, .usage = usage_});
  start_.stream->encode(std::get<EncodedText>(std::move(answer)));
  leave();
}

// The end of a request whose prompt is run by another one.
void RequestState::answer_judged(std::size_t num_prompt) {
  if (!charge_tenant(num_prompt)) return;
  end_trace({.reason = FinishReason::kStop, .error = {}, .usage = usage_});
  start_.stream->encode({});
  leave();
}

AdmissionTicket RequestState::make_ticket(EncodedPrompt prompt) const {
  const GenerationRequest& request = *start_.request;
  auto eos_tokens = model().eos_tokens;
  eos_tokens.insert(eos_tokens.end(), prompt.end_tokens.begin(), prompt.end_tokens.end());
  AdmissionTicket ticket;
  ticket.sequence = start_.id;
  ticket.model = request.model;
  ticket.prompt = std::move(prompt.tokens);
  ticket.sampling = request.sampling;
  ticket.sampling.top_logprobs = num_alternatives();
  if (!request.has_seed && request.sampling.seed == 0) ticket.sampling.seed = start_.drawn_seed;
  if (replays_journaled()) ticket.drawn = request.background->tokens;
  ticket.max_tokens = request.max_tokens;
  ticket.foretold_tokens = request.foretold_tokens;
  ticket.cache_salt = request.cache_salt;
  ticket.cache_quota = request.cache_quota;
  ticket.flow = request.flow;
  ticket.has_begun = start_.has_begun;
  ticket.min_tokens = request.min_tokens;
  ticket.scores_prompt = request.scores_prompt();
  ticket.end_tokens = request.stop_token_ids;
  if (request.min_tokens > 0) {
    ticket.suppressed_early = request.stop_token_ids;
    ticket.suppressed_early.insert(ticket.suppressed_early.end(), eos_tokens.begin(), eos_tokens.end());
  }
  ticket.biased = request.biased;
  if (const auto token = forbidden_token(model(), request)) forbid(*token, ticket.biased);
  if (guide_) {
    ticket.allowed_first = guide_->allowed();
    ticket.free_first = guide_->free();
  }
  if (request.sampling.repetition_penalty != 1.0F) ticket.repeated_prompt = each_once(ticket.prompt);
  if (!request.ignore_eos)
    ticket.end_tokens.insert(ticket.end_tokens.end(), eos_tokens.begin(), eos_tokens.end());
  if (environment_->tracer && trace_->context().is_sampled) ticket.trace = trace_->context();
  return ticket;
}

void RequestState::take_admission() {
  if (is_over()) return;
  start_.stream->mark_admitted();
  usage_.prompt_tokens = static_cast<std::uint32_t>(ticket_->prompt.size());
  if (auto reading = answer_reading(model(), *start_.request, ticket_->prompt)) {
    const Tokenizer& tokenizer = *model().tokenizer;
    reading->has_special_marks = reading->format.is_harmony() && harmony::has_special_marks(tokenizer);
    detokenizer_.emplace(tokenizer, markers_of(reading->format, reading->reads_calls),
                         reading->has_special_marks);
    parser_.emplace(*std::move(reading));
  } else {
    detokenizer_.emplace(*model().tokenizer);
  }
  // An echo that is scored goes through the detokenizer itself.
  if (!begins_text() && !start_.request->scores_echo()) detokenizer_->follow(ticket_->prompt);
  stop_matcher_.emplace(start_.request->stop, start_.request->include_stop_in_output);
  const SamplingParameters& sampling = start_.request->sampling;
  if (sampling.wants_logprobs()) answer_tokens_.emplace(*model().tokenizer, sampling.top_logprobs);
}

std::uint64_t RequestState::journaled_vocabulary() const {
  return tokens_origin(model(), std::get<ChatPrompt>(start_.request->prompt));
}

void RequestState::take_started(const SequenceStarted& message) {
  if (start_.request->background && !trace_->is_accepted())
    self_->send(peers_.store, JournalStart{start_.request->id});
  trace_->take_started(message);
  if (!is_over()) accept();
}

// At the first turn, not before: until then it may still be refused.
void RequestState::accept() {
  if (trace_->is_accepted()) return;
  trace_->mark_accepted();
  start_.stream->accept(usage_.prompt_tokens);
  if (start_.request->echo && !start_.request->scores_echo()) send_echo();
}

void RequestState::send_echo() {
  const auto* prompt = std::get_if<TextPrompt>(&start_.request->prompt);
  std::string text = prompt ? prompt->text : model().tokenizer->decode(ticket_->prompt);
  deliver(std::move(text));
}

// Before the token that they came with is taken.
void RequestState::begin_scoring(const NewToken& token) {
  const GenerationRequest& request = *start_.request;
  PromptScoring::Wish wish{.num_alternatives = request.prompt_logprobs};
  if (request.scores_echo()) {
    wish.echo = &*answer_tokens_;
    wish.detokenizer = &*detokenizer_;
  }
  scoring_.emplace(*model().tokenizer, ticket_->prompt, token.prompt_logprobs, wish);
  behind_scores_.push_back(token);
  score_prompt();
}

// In pieces, so that other actors of the thread have their turns in between.
void RequestState::score_prompt() {
  if (is_over()) return;
  std::string echoed = scoring_->score(kTokensScoredAtOnce);
  if (start_.request->scores_echo()) {
    std::vector<AnswerToken> tokens = tokens_of(echoed, false);
    deliver(std::move(echoed), std::move(tokens));
  }
  if (!scoring_->is_done()) return self_->send(self_, ScorePrompt{});
  prompt_scores_ = scoring_->take_scores();
  is_prompt_scored_ = true;
  scoring_.reset();
  for (const NewToken& token : std::exchange(behind_scores_, {})) take_token(token);
}

void RequestState::take_token(const NewToken& token) {
  if (is_over() || finished_) return;
  accept();  // one of no tokens has no turn
  if (scoring_) return behind_scores_.push_back(token);
  if (token.prompt_logprobs && !is_prompt_scored_) return begin_scoring(token);
  const bool is_allowed = follows_form(token);
  const bool is_complete =
      is_allowed && guide_ && token.end != SequenceEnd::kEndToken && guide_->is_finished();
  const bool is_over = is_complete || token.end != SequenceEnd::kNotYet;
  // Before the text: the next batch waits for it.
  const bool can_go_on = !guide_ || !is_allowed || is_over || allow_next(token);
  std::optional<std::size_t> matched_stop;
  if (token.token >= 0) {
    usage_.completion_tokens += 1;
    usage_.cached_tokens = token.cached_tokens;
    if (token.logprobs) sum_of_logprobs_ += token.logprobs->logprob;
    observe_token(self_->clock().now(), token);
    if (kept_ && token.end != SequenceEnd::kEndToken) kept_->add_token(token.token);
    if (start_.request->background && token.end != SequenceEnd::kEndToken) journal_token(token.token);
    if (record_ && token.end != SequenceEnd::kEndToken) record_->add_token(token.token);
  }
  if (!is_allowed)
    return fail(
        {.message = "The device drew token " + std::to_string(token.token) + ", which was not allowed."});
  std::string text = text_of(token, is_over, matched_stop);
  const bool is_last = matched_stop || is_over;
  std::vector<AnswerToken> tokens = tokens_of(text, is_last && !matched_stop);
  if (parser_) {
    const bool is_cut = matched_stop || (token.end == SequenceEnd::kLength && !is_complete);
    std::optional<AnswerEnd> end;
    if (is_last) end = is_cut ? AnswerEnd::kCut : AnswerEnd::kWhole;
    deliver_split(std::move(text), std::move(tokens), end);
  } else if (token.token >= 0 || !text.empty() || !tokens.empty()) {
    deliver(std::move(text), std::move(tokens));
  }
  if (is_last || (parser_ && parser_->is_done())) return finish(token, matched_stop);
  if (!can_go_on)
    return fail({.kind = ApiErrorKind::kInvalidRequest,
                 .message = "What must follow in the answer can't be written with this model's tokens.",
                 .field = start_.request->form ? start_.request->form->field : "tools"});
  pause_if_unread();
}

// False: it is a token that was not allowed.
bool RequestState::follows_form(const NewToken& token) {
  return !guide_ || token.token < 0 || token.end == SequenceEnd::kEndToken || guide_->take(token.token);
}

// False: nothing can follow. While a token is free, the scheduler knows what may. Of the tokens that an
// earlier process drew, which are reported anew, it knows that of the last one at most.
bool RequestState::allow_next(const NewToken& token) {
  if (free_ && has_token(*free_, static_cast<std::size_t>(token.token))) return true;
  std::shared_ptr<const TokenMask> allowed, free;
  if (!is_unbound_at(token.index)) {
    allowed = guide_->allowed();
    free = guide_->free();
    if (std::all_of(allowed->begin(), allowed->end(), [](std::uint32_t word) { return word == 0; })) {
      if (!guide_->may_be_text() || has_strict_tool(*start_.request)) return false;
      leave_unbound(environment_->metrics.unbound_mask, token.index);
      journal_unbound();
    }
  }
  const bool is_known = token.index >= ticket_->drawn.size();
  if (is_unbound_at(token.index)) {
    allowed = free = guide_->anything();
    if (is_known) guide_.reset();
  }
  free_ = is_known ? free : nullptr;
  self_->send(peers_.scheduler, AllowTokens{.sequence = start_.id,
                                            .num_generated = token.index,
                                            .allowed = std::move(allowed),
                                            .free = std::move(free)});
  return true;
}

// What this token adds for the client to see, all that is left if it is the last.
std::string RequestState::text_of(const NewToken& token, bool is_over,
                                  std::optional<std::size_t>& matched_stop) {
  const bool is_end_token = token.end == SequenceEnd::kEndToken;
  const bool is_shown =
      token.token >= 0 &&
      (!is_end_token || (start_.request->include_stop_in_output && is_stop_token(token.token)));
  std::string fresh = is_shown ? detokenizer_->push(token.token) : std::string();
  if (is_over) fresh += detokenizer_->finish();
  // A client that has its echo scored wants every token, whatever ends the answer.
  if (answer_tokens_ && token.logprobs && token.token >= 0 && (is_shown || start_.request->scores_echo()))
    answer_tokens_->add(token.token, *token.logprobs);
  if (answer_tokens_) answer_tokens_->extend(fresh);
  // Stop strings, like stop tokens, do not count before min_tokens.
  if (usage_.completion_tokens < start_.request->min_tokens) return fresh;
  auto output = stop_matcher_->push(fresh);
  matched_stop = output.matched;
  if (!matched_stop && is_over) output.text += stop_matcher_->finish();
  return std::move(output.text);
}

bool RequestState::is_stop_token(std::int32_t token) const {
  const auto& ids = start_.request->stop_token_ids;
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

// Those whose text begins in this text. When a stop string was cut off, what
// made it up is no part of the answer; else the last text brings all that are left.
std::vector<AnswerToken> RequestState::tokens_of(std::string_view text, bool is_last) {
  if (!answer_tokens_) return {};
  auto tokens = answer_tokens_->show(text);
  if (!is_last) return tokens;
  for (AnswerToken& token : answer_tokens_->take_rest()) tokens.push_back(std::move(token));
  return tokens;
}

void RequestState::deliver(std::string text, std::vector<AnswerToken> tokens) {
  add_to_answer({std::move(text), usage_, std::move(tokens)});
}

void RequestState::deliver_split(std::string text, std::vector<AnswerToken> tokens,
                                 std::optional<AnswerEnd> end) {
  const bool was_reasoning = parser_->is_in_reasoning();
  AnswerParts parts = parser_->push(text);
  if (end) append_parts(parts, parser_->finish(*end));
  count_reasoning(was_reasoning, parts);
  add_to_answer({.text = std::move(parts.text),
                 .usage = usage_,
                 .tokens = std::move(tokens),
                 .reasoning = std::move(parts.reasoning),
                 .calls = std::move(parts.calls)});
}

// Tokens of markers that come in pieces, and of text that is held, count with what they turn out to be.
void RequestState::count_reasoning(bool was_reasoning, const AnswerParts& parts) {
  const std::uint32_t num_new = usage_.completion_tokens - num_sorted_;
  const bool is_reasoning = was_reasoning || parser_->is_in_reasoning() || !parts.reasoning.empty();
  if (is_reasoning) usage_.reasoning_tokens += num_new;
  if (is_reasoning || !parts.is_empty()) num_sorted_ = usage_.completion_tokens;
}

void RequestState::add_to_answer(TextDelta delta) {
  trace_->take_text(delta.text);
  if (kept_) kept_->add(delta);
  if (record_) {
    record_->add_text(delta.text);
    record_->add_calls(delta.calls);
  }
  start_.stream->add_text(std::move(delta));
}

void RequestState::finish(const NewToken& token, std::optional<std::size_t> matched_stop) {
  Finished finished{.reason = FinishReason::kStop, .stop_string = {}, .stop_token = {}, .usage = usage_};
  if (matched_stop) {
    finished.stop_string = start_.request->stop[*matched_stop];
  } else if (token.end == SequenceEnd::kLength && !(guide_ && guide_->is_finished())) {
    finished.reason = FinishReason::kLength;
  } else if (is_stop_token(token.token)) {
    finished.stop_token = token.token;
  }
  if (start_.request->is_ranked && usage_.completion_tokens > 0)
    finished.mean_logprob = sum_of_logprobs_ / usage_.completion_tokens;
  finished.prompt_scores = std::move(prompt_scores_);
  finished.scores_held = std::move(scores_lease_);
  const bool is_call_cut = matched_stop && parser_ && parser_->is_in_call();
  finished.called_tools =
      parser_ && parser_->num_calls() > 0 && !is_call_cut && finished.reason == FinishReason::kStop;
  finished_ = std::move(finished);
  if (token.end != SequenceEnd::kNotYet) is_with_scheduler_ = false;  // it knows already
  remember_turn();
  kept_ ? save() : conclude();
}

// Before the client hears of the end: its next turn may come at once.
void RequestState::remember_turn() {
  if (!record_) return;
  try {
    record_->remember(*model().tokenizer, *environment_->turns);
  } catch (const std::exception& error) {  // the answer is whole without
    log(LogLevel::kError, "a turn is not remembered", {{"reason", error.what()}});
  }
  const auto size = environment_->turns->size();
  environment_->metrics.turn_memory_bytes.set(static_cast<double>(size.num_bytes));
  environment_->metrics.turn_memory_parts.set(static_cast<double>(size.num_parts));
  if (environment_->kept_turns && peers_.store) self_->send(peers_.store, WriteTurns{});
}

// The client hears of the end when the answer can't be lost any more.
void RequestState::save() {
  trace_->begin_saving(self_->clock().now());
  stop_sequence();
  set_paused(false);
  count_in(&environment_->board->num_in_store);
  self_->send(peers_.store, SaveResponse{std::make_shared<const StoredResponse>(
                                kept_->finish(*finished_, model(), environment_->options.store.keep))});
}

void RequestState::take_saved(const ResponseSaved& saved) {
  if (is_over()) return;
  if (saved.error && start_.request->turn->must_be_stored) return fail(*saved.error);
  finished_->is_stored = !saved.error;
  conclude();
}

void RequestState::conclude() {
  observe_end(self_->clock().now());
  end_trace({.reason = finished_->reason, .error = {}, .usage = usage_});
  finished_->timings = trace_->timings();
  if (start_.request->leaves_form_place) finished_->form_place = std::exchange(start_.form_place, nullptr);
  leave_journal();
  start_.stream->finish(std::move(*finished_));
  leave();
}

void RequestState::pause_if_unread() {
  if (is_paused_ || start_.stream->pending_bytes() <= environment_->options.pause_bytes) return;
  set_paused(true);
  self_->send(peers_.scheduler, PauseSequence{start_.id});
}

void RequestState::resume() {
  if (!is_paused_) return;
  set_paused(false);
  self_->send(peers_.scheduler, ResumeSequence{start_.id});
}

void RequestState::set_paused(bool paused) {
  if (paused == is_paused_) return;
  is_paused_ = paused;
  environment_->board->num_paused += paused ? 1 : -1;
  environment_->metrics.requests_paused.add(paused ? 1 : -1);
}

// Counts the request in a gauge of the board (encoding, in the store) while it is there; null: in none.
void RequestState::count_in(std::atomic<std::uint32_t>* number) {
  if (counted_in_) *counted_in_ -= 1;
  counted_in_ = number;
  if (counted_in_) *counted_in_ += 1;
}

// A client hears of its cancel when no later process can take the answer up. If this process
// ends, the next one goes on where it did.
void RequestState::cancel() {
  if (is_over()) return;
  // All of it is with the store, which can't be told to forget it before it has it.
  if (start_.request->background && finished_) return;
  if (!start_.request->background || !peers_.store) return finish_cancelled();
  stop_encoding();
  stop_sequence();
  if (is_promised_ && environment_->board->state() == EngineState::kDraining) {
    flush_journal();
    return finish_cancelled();
  }
  is_cancelled_ = true;
  self_->send(peers_.store, EndJournal{.response = start_.request->id, .wants_answer = true});
}

void RequestState::finish_cancelled() {
  end_trace({.reason = FinishReason::kCancelled, .error = {}, .usage = usage_});
  start_.stream->finish({.reason = FinishReason::kCancelled,
                         .stop_string = {},
                         .stop_token = {},
                         .usage = usage_,
                         .timings = trace_->timings()});
  leave();
}

void RequestState::fail(const ApiError& error) {
  if (is_over()) return;
  end_trace({.reason = FinishReason::kError, .error = error, .usage = usage_});
  if (!may_be_asked_again(error.kind)) leave_journal();
  start_.stream->fail(error);
  leave();
}

// The answer of a chat does, and that of a model that reads a source.
bool RequestState::begins_text() const {
  const auto rule = model().unfolding();
  return std::holds_alternative<ChatPrompt>(start_.request->prompt) || model().source() ||
         (rule && rule->kind == UnfoldingKind::kEncodeDecode);
}

// Before the client is told: whatever happens then, nothing of it is lost.
void RequestState::end_trace(RequestOutcome outcome) {
  trace_->end(self_->clock().now(), std::move(outcome));
  // Spans tell of generations.
  if (start_.request->use == PromptUse::kRun) record_request(*trace_, model().name);
  // A request that is judged is logged when it is run.
  log_request(*trace_, environment_->options.logs_requests && start_.request->use != PromptUse::kJudge);
}

void RequestState::leave() {
  stop_encoding();
  stop_sequence();
  set_paused(false);
  count_in(nullptr);
  self_->quit();
}

// It may still be running, or its admission be on the way: the scheduler is told
// at once, and again by its monitor when this actor ends.
void RequestState::stop_sequence() {
  if (std::exchange(is_with_scheduler_, false))
    send_urgent(peers_.scheduler,
                StopSequence{.sequence = start_.id,
                             .is_answered = finished_ && finished_->reason == FinishReason::kStop});
}

// A chat without earlier answers has nothing to be remembered.
void RequestState::observe_history(const EncodedPrompt& prompt) {
  const auto& messages = std::get<ChatPrompt>(start_.request->prompt).messages;
  const auto is_answer = [](const ChatMessage& message) { return message.role == "assistant"; };
  if (prompt.num_remembered > 0) {
    environment_->metrics.turn_memory_hits.add();
    environment_->metrics.turn_memory_tokens.add(static_cast<double>(prompt.num_remembered));
  } else if (std::any_of(messages.begin(), messages.end(), is_answer)) {
    environment_->metrics.turn_memory_misses.add();
  }
}

void RequestState::observe_token(TimePoint now, const NewToken& token) {
  Metrics& metrics = environment_->metrics;
  trace_->take_token(now, token.batches);
  const bool is_drawn_now = !is_of_earlier_process();
  if (is_drawn_now) metrics.generation_tokens.add();
  if (TenantTab* const tab = start_.stream->tab(); tab && is_drawn_now) tab->use(1, now);
  if (usage_.completion_tokens == 1) {
    metrics.time_to_first_token.observe(in_seconds(now - start_.arrived));
    metrics.prefill_time.observe(in_seconds(now - token.started));
    metrics.prompt_tokens.add(usage_.prompt_tokens);
    metrics.cached_prompt_tokens.add(usage_.cached_tokens);
    metrics.computed_prompt_tokens.add(usage_.prompt_tokens - usage_.cached_tokens);
    started_ = token.started;
    first_token_ = now;
  } else if (is_drawn_now) {
    metrics.inter_token_latency.observe(in_seconds(now - last_token_));
  }
  last_token_ = now;
}

void RequestState::observe_end(TimePoint now) {
  Metrics& metrics = environment_->metrics;
  metrics.end_to_end_latency.observe(in_seconds(now - start_.arrived));
  metrics.prompt_length.observe(usage_.prompt_tokens);
  metrics.generation_length.observe(usage_.completion_tokens);
  if (start_.request->num_choices > 0) metrics.asked_choices.observe(start_.request->num_choices);
  if (start_.request->max_tokens) metrics.asked_max_tokens.observe(*start_.request->max_tokens);
  if (usage_.completion_tokens == 0) return;  // nothing was asked for
  metrics.normalized_latency.observe(in_seconds(now - start_.arrived) / usage_.completion_tokens);
  metrics.decode_time.observe(in_seconds(last_token_ - first_token_));
  metrics.inference_time.observe(in_seconds(last_token_ - started_));
  if (usage_.completion_tokens > 1)
    metrics.time_per_output_token.observe(in_seconds(last_token_ - first_token_) /
                                          (usage_.completion_tokens - 1));
}

}  // namespace troupe
