// SPDX-License-Identifier: Apache-2.0
#include "actors/response_store.hpp"

#include <ctime>
#include <exception>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

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
    case StoreFault::kUnusable: break;
  }
  return ApiErrorKind::kStoreFailed;
}

std::string reason_of(StoreFault fault) {
  switch (fault) {
    case StoreFault::kDamaged: return "what is stored of it is damaged";
    case StoreFault::kFull: return "the store is full";
    case StoreFault::kBusy: return "the store is locked by another program";
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
                                                      CacheTierActor tier) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), std::move(tier));
  return {
      [self](const ReadConversation& message) {
        self->send(caf::actor_cast<RequestActor>(self->current_sender()), self->state.read(message));
      },
      [self](const SaveResponse& message) { self->state.save(message); },
      [self](const AnswerQuery& message) { self->state.answer(message); },
      [self](const OpenStore&) { self->state.open(); },
      [self](const CommitResponses&) { self->state.commit(); },
      [self](const PurgeResponses&) { self->state.purge(); },
  };
}

void ResponseStoreState::initialize(Self self, Environment environment, CacheTierActor tier) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  tier_ = std::move(tier);
  self_->send(self_, OpenStore{});
}

void ResponseStoreState::open() {
  if (store() != nullptr) self_->send(self_, PurgeResponses{});
}

ConversationStore* ResponseStoreState::store() {
  if (store_ && store_->is_broken()) store_.reset();  // opened anew, it puts the file aside
  if (store_) return &*store_;
  const auto now = self_->clock().now();
  if (!problem_.empty() && now - last_attempt_ < kTimeBetweenAttempts) return nullptr;
  last_attempt_ = now;
  try {
    store_.emplace(*environment_->options.store.directory, ConversationStoreOptions{});
    problem_.clear();
    return &*store_;
  } catch (const std::exception& error) {
    if (problem_ != error.what())
      log(LogLevel::kError, "responses are not stored", {{"reason", error.what()}});
    problem_ = error.what();
    return nullptr;
  }
}

ConversationRead ResponseStoreState::read(const ReadConversation& message) {
  auto* responses = store();
  if (responses == nullptr)
    return {.conversation = nullptr, .error = to_api_error("read", {.message = problem_})};
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
}

void ResponseStoreState::commit() {
  const auto batch = std::exchange(unsaved_, {});
  std::vector<const StoredResponse*> responses;
  for (const auto& [request, response] : batch) responses.push_back(response.get());
  const auto results = write(responses);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ResponseSaved saved;
    if (results[i]) saved.error = to_api_error("stored", *results[i]);
    if (!results[i]) environment_->metrics.responses_stored.add();
    self_->send(batch[i].first, std::move(saved));
  }
  if (store_) store_->purge(unix_seconds(), kPurgedBesides);
}

std::vector<std::optional<StoreError>> ResponseStoreState::write(
    const std::vector<const StoredResponse*>& responses) {
  auto* store_now = store();
  if (store_now == nullptr) return {responses.size(), StoreError{.message = problem_}};
  return store_now->save(responses);
}

void ResponseStoreState::answer(const AnswerQuery& message) {
  const StoreQuery& query = message.query;
  const auto fail = [&](const StoreError& error) {
    auto failure = to_api_error(query.kind == StoreQuery::Kind::kFind ? "read" : "deleted", error);
    if (error.fault == StoreFault::kNotFound)
      failure.message = "Response with id '" + query.response + "' not found.";
    message.reply->fail(std::move(failure));
  };
  auto* responses = store();
  if (responses == nullptr) return fail({.message = problem_});
  if (query.kind == StoreQuery::Kind::kRemove) {
    const auto pages = pages_of(*responses, query);
    if (const auto error = responses->remove(query.tenant, query.response, unix_seconds()))
      return fail(*error);
    if (pages) self_->send(tier_, *pages);
    return message.reply->answer({.response = nullptr});
  }
  auto found = responses->find(query.tenant, query.response, unix_seconds());
  if (const auto* error = std::get_if<StoreError>(&found)) return fail(*error);
  message.reply->answer(
      {.response = std::make_shared<const StoredResponse>(std::get<StoredResponse>(std::move(found)))});
}

// Of what the response added to the one before it; that one stays.
std::optional<ForgetPages> ResponseStoreState::pages_of(ConversationStore& store,
                                                        const StoreQuery& query) const {
  const auto found = store.find(query.tenant, query.response, unix_seconds());
  auto read = store.read_conversation(query.tenant, query.response, unix_seconds());
  const auto* response = std::get_if<StoredResponse>(&found);
  auto* conversation = std::get_if<Conversation>(&read);
  if (response == nullptr || conversation == nullptr) return std::nullopt;
  const std::size_t num_kept =
      response->extends_previous ? conversation->tokens.size() - response->tokens.size() : 0;
  return ForgetPages{
      .tokens = std::make_shared<const std::vector<std::int32_t>>(std::move(conversation->tokens)),
      .num_kept = num_kept,
      .cache_salt = query.cache_salt};
}

// In pieces, so that requests come in between.
void ResponseStoreState::purge() {
  if (!store_) return;
  const auto purged = store_->purge(unix_seconds(), kPurgedAtOnce);
  const auto* number = std::get_if<std::size_t>(&purged);
  if (number != nullptr && *number > 0) self_->send(self_, PurgeResponses{});
}

// What is a client's mistake is not logged.
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
