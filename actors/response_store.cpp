// SPDX-License-Identifier: Apache-2.0
#include "actors/response_store.hpp"

#include <ctime>
#include <exception>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/turn_keeping.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kTimeBetweenAttempts{5};
constexpr std::size_t kPurgedAtOnce = 256;  // milliseconds
constexpr std::size_t kPurgedBesides = 8;   // with each commit: faster than they come

std::int64_t unix_seconds() { return static_cast<std::int64_t>(std::time(nullptr)); }

ApiErrorKind kind_of(StoreFault fault) {
  switch (fault) {
    case StoreFault::kNotFound: return ApiErrorKind::kResponseNotFound;
    case StoreFault::kTooLong: return ApiErrorKind::kInvalidRequest;
    case StoreFault::kFull: return ApiErrorKind::kStoreFull;
    case StoreFault::kDamaged:
    case StoreFault::kBusy:
    case StoreFault::kReadOnly:
    case StoreFault::kUnusable: break;
  }
  return ApiErrorKind::kStoreFailed;
}

std::string reason_of(StoreFault fault) {
  switch (fault) {
    case StoreFault::kDamaged: return "what is stored of it is damaged";
    case StoreFault::kFull: return "the store is full";
    case StoreFault::kBusy: return "the store is locked by another program";
    case StoreFault::kReadOnly:
      return "the store is read-only since the disk has failed to keep what it was given";
    default: return "the store can't be used";
  }
}

}  // namespace

StoreReply::~StoreReply() {
  if (!sink_) return;
  try {
    fail({.kind = ApiErrorKind::kInternal, .message = "The question was lost inside the server."});
  } catch (const std::exception& error) {
    log(LogLevel::kError, "a client was not told of its end", {{"reason", error.what()}});
  }
}

void StoreReply::end(ResponseEvent event) {
  if (const auto sink = std::exchange(sink_, nullptr)) sink->deliver(std::move(event));
}

ResponseStoreActor::behavior_type make_response_store(ResponseStoreState::Self self, Environment environment,
                                                      SchedulerActor scheduler, CacheTierActor tier) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(scheduler), std::move(tier));
  return {
      [self](const ReadConversation& message) {
        self->send(caf::actor_cast<RequestActor>(self->current_sender()), self->state.read(message));
      },
      [self](const SaveResponse& message) { self->state.save(message); },
      [self](const JournalRequest& message) {
        self->send(caf::actor_cast<RequestActor>(self->current_sender()), self->state.journal(message));
      },
      [self](const JournalStart& message) { self->state.journal(message); },
      [self](const JournalTokens& message) { self->state.journal(message); },
      [self](const JournalUnbound& message) { self->state.journal(message); },
      [self](const EndJournal& message) { self->state.end_journal(message); },
      [self](const AnswerQuery& message) { self->state.answer(message); },
      [self](const OpenStore&) { self->state.open(); },
      [self](const CommitResponses&) { self->state.commit(); },
      [self](const PurgeResponses&) { self->state.purge(); },
      [self](const OverwriteRemoved&) { self->state.overwrite_removed(); },
      [self](const WriteTurns&) { self->state.write_turns(); },
      [self](const RoomMade&) { self->state.take_room(); },
  };
}

void ResponseStoreState::initialize(Self self, Environment environment, SchedulerActor scheduler,
                                    CacheTierActor tier) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  scheduler_ = std::move(scheduler);
  tier_ = std::move(tier);
  journal_.emplace(environment_->options.store.directory);
  environment_->board->store_state = StoreState::kOpening;
  self_->send(self_, OpenStore{});
}

void ResponseStoreState::open() {
  if (store() != nullptr) self_->send(self_, PurgeResponses{});
}

ConversationStore* ResponseStoreState::store() {
  if (store_ && store_->is_broken()) {
    publish();  // keeps that a sync failed
    store_.reset();
    was_broken_ = true;
  }
  if (store_) return &*store_;
  const auto now = self_->clock().now();
  if (problem_ && now - last_attempt_ < kTimeBetweenAttempts) return nullptr;
  last_attempt_ = now;
  try {
    store_.emplace(
        *environment_->options.store.directory,
        ConversationStoreOptions{.file = {.is_damaged = was_broken_}, .is_read_only = has_sync_failed_});
    problem_.reset();
    was_broken_ = false;
    if (store_->damage()) report_damage(*store_->damage());
  } catch (const SalvagedNotOpened& error) {
    was_broken_ = false;
    report_damage(error.damage());
    keep_problem(error);
  } catch (const std::exception& error) {
    keep_problem(error);
  }
  publish();
  return store_ ? &*store_ : nullptr;
}

void ResponseStoreState::keep_problem(const std::exception& error) {
  if (!problem_ || problem_->message != error.what())
    log(LogLevel::kError, "responses are not stored", {{"reason", error.what()}});
  const auto* of_sqlite = dynamic_cast<const SqliteError*>(&error);
  if (of_sqlite != nullptr && of_sqlite->is_failed_sync()) note_failed_sync();
  problem_ = {
      .fault = of_sqlite != nullptr && of_sqlite->is_full() ? StoreFault::kFull : StoreFault::kUnusable,
      .message = error.what()};
}

void ResponseStoreState::report_damage(const FileDamage& damage) {
  const Metrics& metrics = environment_->metrics;
  metrics.store_damages.add();
  metrics.responses_salvaged.add(static_cast<double>(damage.salvaged.num_responses));
  metrics.responses_lost.add(static_cast<double>(damage.salvaged.num_lost));
  StatusBoard& board = *environment_->board;
  board.store_damages += 1;
  board.responses_salvaged += damage.salvaged.num_responses;
  board.responses_lost += damage.salvaged.num_lost;
}

void ResponseStoreState::publish() {
  if (store_ && store_->is_read_only()) note_failed_sync();
  environment_->metrics.store_read_only.set(has_sync_failed_ ? 1 : 0);
  environment_->board->store_state = !store_            ? StoreState::kUnusable
                                     : has_sync_failed_ ? StoreState::kReadOnly
                                                        : StoreState::kWorks;
}

void ResponseStoreState::note_failed_sync() {
  if (!std::exchange(has_sync_failed_, true))
    log(LogLevel::kError,
        "the disk has failed to sync stored responses: none are stored until the next start");
}

ConversationRead ResponseStoreState::read(const ReadConversation& message) {
  auto* responses = store();
  if (responses == nullptr) return {.conversation = nullptr, .error = to_api_error("read", *problem_)};
  auto read = responses->read_conversation(message.tenant, message.response, unix_seconds());
  if (const auto* error = std::get_if<StoreError>(&read)) {
    ConversationRead failed{.conversation = nullptr, .error = to_api_error("read", *error)};
    failed.error.field = "previous_response_id";
    if (error->fault == StoreFault::kNotFound)
      failed.error = {.kind = ApiErrorKind::kPreviousResponseNotFound,
                      .message = "Previous response with id '" + message.response + "' not found.",
                      .field = "previous_response_id"};
    return failed;
  }
  return {.conversation = std::make_shared<const Conversation>(std::get<Conversation>(std::move(read))),
          .error = {}};
}

void ResponseStoreState::save(const SaveResponse& message) {
  if (unsaved_.empty()) self_->send(self_, CommitResponses{});
  unsaved_.emplace_back(caf::actor_cast<RequestActor>(self_->current_sender()), message.response);
  environment_->board->num_saving += 1;
}

void ResponseStoreState::commit() {
  if (is_room_asked_for_) return;
  save_waiting(true);
  if (is_overwriting_due_) overwrite();
}

void ResponseStoreState::take_room() {
  is_room_asked_for_ = false;
  last_attempt_ = {};
  save_waiting(false);
  if (is_overwriting_due_) overwrite();
}

void ResponseStoreState::write_turns() {
  if (environment_->kept_turns) environment_->kept_turns->write();
}

void ResponseStoreState::save_waiting(bool may_ask_for_room) {
  if (unsaved_.empty()) return;
  const auto results = write();
  const bool is_full = results.front() && results.front()->fault == StoreFault::kFull;
  if (is_full && may_ask_for_room) return ask_for_room();
  const auto batch = std::exchange(unsaved_, {});
  environment_->board->num_saving -= static_cast<std::uint32_t>(batch.size());  // before anybody hears of it
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ResponseSaved saved;
    if (results[i]) saved.error = to_api_error("stored", *results[i]);
    if (!results[i]) environment_->metrics.responses_stored.add();
    self_->send(batch[i].first, std::move(saved));
  }
  if (store_) store_->purge(unix_seconds(), kPurgedBesides);
}

// One result for each response that waits, in their order.
std::vector<std::optional<StoreError>> ResponseStoreState::write() {
  auto* store_now = store();
  if (store_now == nullptr) return {unsaved_.size(), *problem_};
  std::vector<const StoredResponse*> responses;
  for (const auto& [request, response] : unsaved_) responses.push_back(response.get());
  auto results = store_now->save(responses);
  publish();
  return results;
}

void ResponseStoreState::ask_for_room() {
  if (!std::exchange(is_room_asked_for_, true)) self_->send(tier_, MakeRoom{});
}

// A store that takes no answer takes no promise of one.
RequestJournaled ResponseStoreState::journal(const JournalRequest& message) {
  if (store() == nullptr) return {.error = to_api_error("stored", *problem_)};
  if (has_sync_failed_)
    return {.error =
                to_api_error("stored", {.fault = StoreFault::kReadOnly, .message = "a sync has failed"})};
  if (const auto error = journal_->begin(*message.answer)) return {.error = to_api_error("stored", *error)};
  return {};
}

void ResponseStoreState::journal(const JournalStart& message) { journal_->mark_start(message.response); }

void ResponseStoreState::journal(const JournalTokens& message) {
  journal_->extend(message.response, message.vocabulary, message.first, message.tokens);
}

void ResponseStoreState::journal(const JournalUnbound& message) {
  journal_->mark_unbound(message.response, message.vocabulary, message.from);
}

void ResponseStoreState::end_journal(const EndJournal& message) {
  journal_->end(message.response);
  if (message.wants_answer)
    self_->send(caf::actor_cast<RequestActor>(self_->current_sender()), JournalEnded{});
}

void ResponseStoreState::answer(const AnswerQuery& message) {
  const StoreQuery& query = message.query;
  auto* responses = store();
  if (responses == nullptr) return fail(message, *problem_);
  if (query.kind == StoreQuery::Kind::kRemove) return remove(*responses, message);
  auto found = responses->find(query.tenant, query.response, unix_seconds());
  if (const auto* error = std::get_if<StoreError>(&found)) return fail(message, *error);
  message.reply->answer(
      {.response = std::make_shared<const StoredResponse>(std::get<StoredResponse>(std::move(found)))});
}

void ResponseStoreState::fail(const AnswerQuery& message, const StoreError& error) {
  const StoreQuery& query = message.query;
  auto failure = to_api_error(query.kind == StoreQuery::Kind::kFind ? "read" : "deleted", error);
  if (error.fault == StoreFault::kNotFound)
    failure.message = "Response with id '" + query.response + "' not found.";
  message.reply->fail(std::move(failure));
}

// Answered when its bytes are overwritten, those of all that wait at once.
void ResponseStoreState::remove(ConversationStore& store, const AnswerQuery& message) {
  const StoreQuery& query = message.query;
  auto removed = store.remove(query.tenant, query.response, unix_seconds());
  publish();
  if (const auto* error = std::get_if<StoreError>(&removed)) {
    // One that failed, and that no process knows any more, is in the journal only.
    if (error->fault == StoreFault::kNotFound && journal_->end_of(query.response, query.tenant))
      return message.reply->answer({.response = nullptr});
    if (error->fault == StoreFault::kFull) ask_for_room();  // for the next attempt
    return fail(message, *error);
  }
  for (auto& run : std::get<RemovedResponse>(removed).runs) {
    environment_->turns->forget(query.tenant, run.tokens, run.num_kept);
    self_->send(
        scheduler_,
        ForgetPages{.tokens = std::make_shared<const std::vector<std::int32_t>>(std::move(run.tokens)),
                    .num_kept = run.num_kept,
                    .cache_salt = query.cache_salt});
  }
  if (removed_.empty()) self_->send(self_, OverwriteRemoved{});
  removed_.push_back(message.reply);
}

void ResponseStoreState::overwrite_removed() {
  const auto replies = std::exchange(removed_, {});
  overwrite();
  if (environment_->kept_turns) environment_->kept_turns->write_lastingly();
  for (const auto& reply : replies) reply->answer({.response = nullptr});
}

// One attempt covers all that was removed; after a failure the next commit tries again.
void ResponseStoreState::overwrite() {
  auto* store_now = store();
  const auto error = store_now != nullptr ? store_now->overwrite_removed() : problem_;
  publish();
  const bool is_due_already = std::exchange(is_overwriting_due_, error.has_value());
  if (!error || is_due_already) return;
  log(LogLevel::kWarning,
      "deleted responses are gone, but not yet overwritten in the file: tried again after each commit",
      {{"reason", error->message}});
  if (error->fault == StoreFault::kFull) ask_for_room();
}

// In pieces, so that requests come in between.
void ResponseStoreState::purge() {
  if (!store_) return;
  const auto purged = store_->purge(unix_seconds(), kPurgedAtOnce);
  const auto* number = std::get_if<std::size_t>(&purged);
  if (number == nullptr || *number == 0) return;
  self_->send(self_, PurgeResponses{});
  if (removed_.empty()) self_->send(self_, OverwriteRemoved{});
}

// A client's mistake is not logged.
ApiError ResponseStoreState::to_api_error(std::string_view done, const StoreError& error) {
  const auto kind = kind_of(error.fault);
  if (kind == ApiErrorKind::kResponseNotFound || kind == ApiErrorKind::kInvalidRequest)
    return {.kind = kind, .message = error.message};
  environment_->metrics.store_failures.add();
  log(LogLevel::kWarning, "the response store failed", {{"to_be", done}, {"reason", error.message}});
  return {.kind = kind,
          .message = "The response can't be " + std::string(done) + ": " + reason_of(error.fault) + "."};
}

ApiError nothing_is_kept(ApiErrorKind kind, std::optional<std::string> field) {
  return {.kind = kind,
          .message = "This server keeps no responses: it runs without a store.",
          .field = std::move(field)};
}

}  // namespace troupe
