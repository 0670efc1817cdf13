// SPDX-License-Identifier: Apache-2.0
// One actor a request, for as long as it lives: encodes the prompt, has the
// scheduler run the sequence, turns its tokens into text, looks for stop
// strings, and is the only one to speak to the client.
//
//   begin ─► reading ─► encoding ─► admitting ─► streaming ─► saving ─► over
//          (if it continues    (own thread if long)   │  ▲   (if it is kept)
//           a conversation)                           ▼  │ the client has read
//                                                    paused
// Cancel and failure lead to `over` from everywhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "actors/request/answer/answer_splitting.hpp"
#include "actors/request/answer/answer_tokens.hpp"
#include "actors/request/answer/output_guide.hpp"
#include "actors/request/answer/prompt_scoring.hpp"
#include "actors/request/answer/response_stream.hpp"
#include "actors/request/answer/text_quota.hpp"
#include "actors/request/prompt/kept_turn.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "text/detokenizer.hpp"
#include "text/history/answer_record.hpp"
#include "text/stop_matcher.hpp"

namespace troupe {

struct RequestStart {
  RequestId id = 0;
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<ResponseStream> stream;
  std::uint64_t drawn_seed = 0;                 // used if the client gave none
  std::optional<ApiError> refusal;              // known before it began: overload, draining
  std::shared_ptr<const void> form_place = {};  // null: the answer is not bound to a form
  bool has_begun = false;                       // as AdmissionTicket's
  std::chrono::steady_clock::time_point arrived;
};

// The actors that a request speaks to.
struct RequestPeers {
  SchedulerActor scheduler;
  PromptEncoderActor encoder;
  ResponseStoreActor store;  // null: nothing is kept
};

class RequestState {
 public:
  using Self = RequestActor::stateful_pointer<RequestState>;
  static inline const char* name = "request";

  void initialize(Self self, Environment environment, RequestPeers peers, RequestStart start);
  ~RequestState();

  void begin_request();
  void cancel();
  void resume();
  void take_conversation(const ConversationRead& read);
  void take_prompt(const PromptEncoded& prompt);
  void take_admission();
  void take_started(const SequenceStarted& message);
  void take_stopped(const SequenceStopped& message) { trace_->take_stopped(message); }
  void take_reservation(const ReservationChanged& message) { trace_->take_reservation(message); }
  void take_token(const NewToken& token);
  void score_prompt();
  void take_journaled(const RequestJournaled& journaled);
  void take_saved(const ResponseSaved& saved);
  void finish_cancelled();
  void fail(const ApiError& error);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  const ServedModel& model() const { return environment_->models[start_.request->model].served; }
  bool find_guide();
  bool lease_scores(std::size_t num_prompt);
  bool charge_tenant(std::size_t num_prompt);
  std::int32_t num_alternatives() const;
  bool find_call_guide(const std::vector<std::int32_t>& prompt);
  bool is_of_this_answer(const BackgroundRun& run) const;
  std::vector<std::int32_t> own_ends(const EncodedPrompt& prompt) const;
  void leave_unbound(Counter& reason, std::uint32_t from);
  bool is_unbound_at(std::uint32_t place) const { return unbound_from_ && place >= *unbound_from_; }
  void journal_unbound();
  bool allows_journaled(OutputGuide guide) const;
  bool replays_journaled() const;
  bool is_over() const { return is_cancelled_ || start_.stream->is_over(); }
  void enter_journal();
  std::uint64_t journaled_vocabulary() const;
  bool is_of_earlier_process() const;
  void journal_token(std::int32_t token);
  void flush_journal();
  void leave_journal();
  void encode(std::shared_ptr<const Conversation> conversation);
  void encode_elsewhere(std::size_t num_bytes, std::shared_ptr<const Conversation> conversation);
  void stop_encoding();
  void admit(EncodedPrompt prompt);
  void ask_for_admission();
  void answer_encoded(std::vector<std::int32_t> tokens);
  void answer_judged(std::size_t num_prompt);
  AdmissionTicket make_ticket(EncodedPrompt prompt) const;
  void accept();
  void send_echo();
  void begin_scoring(const NewToken& token);
  bool follows_form(const NewToken& token);
  bool allow_next(const NewToken& token);
  std::string text_of(const NewToken& token, bool is_over, std::optional<std::size_t>& matched_stop);
  void deliver(std::string text, std::vector<AnswerToken> tokens = {});
  void count_reasoning(bool was_reasoning, const AnswerParts& parts);
  // end: nothing follows.
  void deliver_split(std::string text, std::vector<AnswerToken> tokens, std::optional<AnswerEnd> end);
  void add_to_answer(TextDelta delta);
  std::vector<AnswerToken> tokens_of(std::string_view text, bool is_last);
  void finish(const NewToken& token, std::optional<std::size_t> matched_stop);
  void save();
  void conclude();
  void stop_sequence();
  bool is_stop_token(std::int32_t token) const;
  void pause_if_unread();
  void remember_turn();
  void observe_history(const EncodedPrompt& prompt);
  void observe_token(TimePoint now, const NewToken& token);
  void observe_end(TimePoint now);
  void set_paused(bool paused);
  void count_in(std::atomic<std::uint32_t>* number);
  bool begins_text() const;
  void end_trace(RequestOutcome outcome);
  void leave();

  Self self_ = nullptr;
  Environment environment_;
  RequestPeers peers_;
  RequestStart start_;
  std::unique_ptr<CensusEntry> census_;
  std::optional<TextLease> text_lease_;              // of a long prompt
  std::shared_ptr<std::atomic<bool>> is_abandoned_;  // while it is encoded elsewhere: stops that
  std::shared_ptr<const AdmissionTicket> ticket_;
  std::optional<StreamingDetokenizer> detokenizer_;
  std::optional<StopMatcher> stop_matcher_;
  std::optional<OutputGuide> guide_;       // if the answer must have a form
  std::shared_ptr<const TokenMask> free_;  // as the scheduler has it of guide_ for certain
  std::optional<std::uint32_t>
      unbound_from_;                    // the place in the answer from which on its calls are not bound
  std::optional<AnswerParser> parser_;  // of an answer that is taken apart
  std::optional<AnswerTokens> answer_tokens_;  // if log-probabilities are wanted
  std::optional<RequestTrace> trace_;          // from the beginning
  std::optional<KeptTurn> kept_;               // of a turn that is to be stored
  std::optional<AnswerRecord> record_;         // of a chat, for its next turn
  std::vector<std::int32_t> unjournaled_;      // tokens of an answer in the background
  std::optional<Finished> finished_;           // all was generated; it may still have to be stored
  Usage usage_;
  std::uint32_t num_sorted_ = 0;          // of the answer's tokens: known to be reasoning or not
  std::optional<PromptScoring> scoring_;  // while log-probabilities of the prompt become the client's
  std::vector<NewToken> behind_scores_;   // tokens that wait for that
  std::shared_ptr<const PromptScores> prompt_scores_;
  std::shared_ptr<const void> scores_lease_;  // null: they are few
  double sum_of_logprobs_ = 0.0;              // of the answer's tokens, if they come with theirs
  bool is_prompt_scored_ = false;
  bool is_with_scheduler_ = false;
  bool is_promised_ = false;   // in the journal, as its client knows
  bool is_cancelled_ = false;  // and about to leave the journal
  bool is_paused_ = false;
  std::atomic<std::uint32_t>* counted_in_ = nullptr;  // on the board
  TimePoint started_, first_token_, last_token_;
};

RequestActor::behavior_type make_request(RequestState::Self self, Environment environment, RequestPeers peers,
                                         RequestStart start);

}  // namespace troupe
