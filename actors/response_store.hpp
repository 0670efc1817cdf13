// SPDX-License-Identifier: Apache-2.0
// Owns the store of responses, which blocks on the disk: on a thread of its own.
// Responses that come while others are being written go to the disk together.
// A store that can't be opened is tried again when it is next needed; until
// then whoever needs it is told.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "store/conversation_store.hpp"

namespace troupe {

// One answer to whoever asked the store; Failed if this is destroyed without.
class StoreReply {
 public:
  explicit StoreReply(std::shared_ptr<ResponseSink> sink) : sink_(std::move(sink)) {}
  ~StoreReply();
  StoreReply(const StoreReply&) = delete;
  StoreReply& operator=(const StoreReply&) = delete;

  void answer(StoreAnswer answer) { end(std::move(answer)); }
  void fail(ApiError error) { end(Failed{std::move(error)}); }

 private:
  void end(ResponseEvent event);

  std::shared_ptr<ResponseSink> sink_;
};

class ResponseStoreState {
 public:
  using Self = ResponseStoreActor::stateful_pointer<ResponseStoreState>;
  static inline const char* name = "response_store";

  void initialize(Self self, Environment environment, CacheTierActor tier);

  void open();
  ConversationRead read(const ReadConversation& message);
  void save(const SaveResponse& message);
  void commit();
  void answer(const AnswerQuery& message);
  void purge();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Null, and `problem_` says why.
  ConversationStore* store();
  std::optional<ForgetPages> pages_of(ConversationStore& store, const StoreQuery& query) const;
  std::vector<std::optional<StoreError>> write(const std::vector<const StoredResponse*>& responses);
  // done: what can't be: "read", "stored", "deleted".
  ApiError to_api_error(std::string_view done, const StoreError& error);

  Self self_ = nullptr;
  Environment environment_;
  CacheTierActor tier_;  // is told of conversations that are over
  std::unique_ptr<CensusEntry> census_;
  std::optional<ConversationStore> store_;
  std::string problem_;     // why there is none
  TimePoint last_attempt_;  // to open it
  std::vector<std::pair<RequestActor, std::shared_ptr<const StoredResponse>>> unsaved_;
};

ResponseStoreActor::behavior_type make_response_store(ResponseStoreState::Self self, Environment environment,
                                                      CacheTierActor tier);

// What a request is told where there is no store.
ApiError nothing_is_kept(ApiErrorKind kind, std::optional<std::string> field = std::nullopt);

}  // namespace troupe
