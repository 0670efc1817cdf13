// SPDX-License-Identifier: Apache-2.0
// Owns the store of responses and the journal of those in the background, which block on
// the disk: on a thread of its own.
// Responses that come while others are being written go to the disk together.
// A store that can't be opened is tried again when it is next needed; until
// then each request for it fails. On a full disk KV gives way once, and the write
// is tried again, before a response is refused.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "store/answer_journal.hpp"
#include "store/conversation_store.hpp"

namespace troupe {

// One answer to a question to the store; Failed if this is destroyed without.
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

  void initialize(Self self, Environment environment, SchedulerActor scheduler, CacheTierActor tier);

  void open();
  ConversationRead read(const ReadConversation& message);
  void save(const SaveResponse& message);
  void commit();
  void take_room();  // KV has given way
  void write_turns();
  RequestJournaled journal(const JournalRequest& message);
  void journal(const JournalStart& message);
  void journal(const JournalTokens& message);
  void journal(const JournalUnbound& message);
  void end_journal(const EndJournal& message);
  void answer(const AnswerQuery& message);
  void overwrite_removed();
  void purge();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Null, and `problem_` says why.
  ConversationStore* store();
  void keep_problem(const std::exception& error);
  void report_damage(const FileDamage& damage);
  void publish();
  void note_failed_sync();
  void remove(ConversationStore& store, const AnswerQuery& message);
  void fail(const AnswerQuery& message, const StoreError& error);
  void overwrite();
  void save_waiting(bool may_ask_for_room);
  std::vector<std::optional<StoreError>> write();
  void ask_for_room();
  // done: what can't be: "read", "stored", "deleted".
  ApiError to_api_error(std::string_view done, const StoreError& error);

  Self self_ = nullptr;
  Environment environment_;
  SchedulerActor scheduler_;  // is told of conversations that are over
  CacheTierActor tier_;       // makes room on the disk
  std::unique_ptr<CensusEntry> census_;
  std::optional<AnswerJournal> journal_;
  std::optional<ConversationStore> store_;
  std::optional<StoreError> problem_;  // why there is none
  bool was_broken_ = false;            // when it was last open
  bool has_sync_failed_ = false;       // in this process: the store is read-only, however often it is opened
  TimePoint last_attempt_;             // to open it
  std::vector<std::pair<RequestActor, std::shared_ptr<const StoredResponse>>> unsaved_;
  bool is_room_asked_for_ = false;
  // Removed, and not yet overwritten in the files.
  std::vector<std::shared_ptr<StoreReply>> removed_;
  bool is_overwriting_due_ = false;  // the last attempt failed
};

ResponseStoreActor::behavior_type make_response_store(ResponseStoreState::Self self, Environment environment,
                                                      SchedulerActor scheduler, CacheTierActor tier);

// The error of a request that needs a store where there is none.
ApiError nothing_is_kept(ApiErrorKind kind, std::optional<std::string> field = std::nullopt);

}  // namespace troupe
