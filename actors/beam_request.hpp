// SPDX-License-Identifier: Apache-2.0
// One actor a request for the most likely answers to a prompt, for as long as it lives: encodes the prompt,
// plays the search (policy/searching/beam_search.hpp) and gives the client all answers at once.
//
//   begin ─► encoding ─► a step of the prompt alone ─► a step of all open beginnings ─► answers ─► over
//                                                        ▲─────────────────────────┘
//
// In a step each beginning is a sequence that draws one token, for the sake of the most likely ones there. It
// shares a batch with anybody's, and finds the pages of the beginning that it goes on from in the prefix
// cache: whole ones are shared, the last is copied. With its first turn the request has begun, and its steps
// are neither refused nor displaced for want of room. Cancel and failure lead to `over` from everywhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "actors/request/answer/response_stream.hpp"
#include "actors/request/answer/text_quota.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "policy/searching/beam_search.hpp"

namespace troupe {

struct BeamStart {
  RequestId first_id = 0;  // the request's; its sequences have this number and those behind, one a beam
  std::shared_ptr<const GenerationRequest> request;  // with its `beams`
  std::shared_ptr<ResponseStream> stream;
  DoorPass place;                   // among open searches, until it ends; null where it is refused
  std::optional<ApiError> refusal;  // known before it began: overload, draining
  std::chrono::steady_clock::time_point arrived;
};

struct BeamPeers {
  SchedulerActor scheduler;
  PromptEncoderActor encoder;
};

class BeamRequestState {
 public:
  using Self = RequestActor::stateful_pointer<BeamRequestState>;
  static inline const char* name = "beam-request";

  void initialize(Self self, Environment environment, BeamPeers peers, BeamStart start);
  ~BeamRequestState();

  void begin_request();
  void take_prompt(const PromptEncoded& encoded);
  void take_admission();
  void take_started(const SequenceStarted& message);
  void take_token(const NewToken& token);
  void cancel();
  void fail(const ApiError& error);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  const ServedModel& model() const { return environment_->models[start_.request->model].served; }
  const BeamWish& wish() const { return *start_.request->beams; }
  bool is_over() const { return start_.stream->is_over(); }
  void encode_elsewhere(std::size_t num_bytes);
  void begin_search(const EncodedPrompt& prompt);
  std::optional<ApiError> refusal() const;
  bool charge_tenant();
  std::uint32_t most_tokens() const;
  void step();
  AdmissionTicket ticket_of(std::size_t beam) const;
  void note_first_token(const NewToken& token);
  void finish();
  FoundAnswer found(const BeamSearch::Answer& answer) const;
  void observe_end(TimePoint now) const;
  void end_trace(RequestOutcome outcome);
  void leave();

  Self self_ = nullptr;
  Environment environment_;
  BeamPeers peers_;
  BeamStart start_;
  std::unique_ptr<CensusEntry> census_;
  std::optional<TextLease> text_lease_;
  std::shared_ptr<std::atomic<bool>> is_abandoned_;  // while the prompt is encoded: stops that
  std::vector<std::int32_t> prompt_;
  std::vector<std::int32_t> end_tokens_;
  std::optional<BeamSearch> search_;
  std::vector<std::vector<BeamSearch::Continuation>> behind_;  // of the open beginnings, as they come
  std::set<SequenceId> with_scheduler_;                        // of this step
  std::optional<RequestTrace> trace_;                          // from the beginning
  Usage usage_;
  bool has_begun_ = false;
};

RequestActor::behavior_type make_beam_request(BeamRequestState::Self self, Environment environment,
                                              BeamPeers peers, BeamStart start);

}  // namespace troupe
