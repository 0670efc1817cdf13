// SPDX-License-Identifier: Apache-2.0
// One actor an embedding request, for as long as it lives: encodes its inputs to
// token ids, has the scheduler run each as a sequence of its own, which may share a
// batch with anybody's, and gives the client all vectors at once, in order.
//
//   begin ─► first input ─► its turn ─► the others, kInputsAtOnce at a time ─► vectors ─► over
//
// An input whose vector is kept (shared_vectors.hpp) has it at once, and is charged as others are.
// The first input queues as any request does; with its turn the request has begun, and
// its other inputs are neither refused nor displaced for want of room; a tenant's max_tokens may refuse them.
// Cancel and the failure of one input lead to `over` from everywhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "actors/request/answer/response_stream.hpp"
#include "actors/request/answer/text_quota.hpp"
#include "actors/request/embedding_request.hpp"
#include "actors/request/prompt/encoded_prompt.hpp"
#include "actors/request/trace/request_trace.hpp"
#include "policy/vectors/vector_cache.hpp"

namespace troupe {

struct EmbeddingStart {
  RequestId first_id = 0;  // the request's, and its first input's sequence; the others follow
  std::shared_ptr<const EmbeddingRequest> request;
  std::shared_ptr<ResponseStream> stream;
  std::optional<ApiError> refusal;  // known before it began: overload, draining
  std::chrono::steady_clock::time_point arrived;
};

struct EmbeddingPeers {
  SchedulerActor scheduler;
  PromptEncoderActor encoder;
};

class EmbeddingState {
 public:
  using Self = RequestActor::stateful_pointer<EmbeddingState>;
  static inline const char* name = "embedding";
  // A request of many inputs leaves room in batches for others.
  static constexpr std::size_t kInputsAtOnce = 64;
  // Nodes of all the trees of a request.
  static constexpr std::size_t kMaxNodes = 65536;

  void initialize(Self self, Environment environment, EmbeddingPeers peers, EmbeddingStart start);
  ~EmbeddingState();

  void begin_request();
  void take_prompt(const PromptEncoded& prompt);
  void take_admission();
  void take_started(const SequenceStarted& message);
  void take_stopped(const SequenceStopped& message);
  void take_vector(const Encoded& encoded);
  void cancel();
  void fail(ApiError error, SequenceId sequence);

 private:
  // An input that is a tree.
  struct TreeInput {
    std::vector<std::uint32_t> node_results;  // as EncodedPrompt's
    std::uint32_t root = 0;
    std::vector<float> vectors;  // [nodes, size], when they have come
  };

  const ServedModel& model() const { return environment_->models[start_.request->model].served; }
  std::size_t num_inputs() const { return start_.request->inputs.size(); }
  void feed();
  void keep_vector(SequenceId sequence, const std::vector<float>& vector);
  void encode(std::size_t input);
  void admit(SequenceId sequence, EncodedPrompt prompt);
  bool lease_nodes(std::size_t num_nodes, SequenceId sequence);
  void take_nodes(const Encoded& encoded, TreeInput& tree);
  void finish();
  void end_trace(RequestOutcome outcome);
  void leave();

  Self self_ = nullptr;
  Environment environment_;
  EmbeddingPeers peers_;
  EmbeddingStart start_;
  std::unique_ptr<CensusEntry> census_;
  std::shared_ptr<std::vector<TextLease>> leases_;   // of long inputs, of their vectors, of trees' nodes
  std::shared_ptr<std::atomic<bool>> is_abandoned_;  // stops what is being encoded
  std::optional<RequestTrace> trace_;
  bool is_short_ = false;  // its text is encoded here
  bool has_begun_ = false;
  std::size_t next_ = 0;  // input
  std::set<SequenceId> encoding_, with_scheduler_;
  std::map<SequenceId, VectorInput> asked_;  // of those with the scheduler, where vectors are kept
  std::vector<float> vectors_;               // [inputs, size]; those that have come
  std::map<SequenceId, TreeInput> trees_;    // in their order
  std::size_t num_nodes_ = 0;                // of the trees that are encoded
  std::size_t size_ = 0;
  std::size_t num_done_ = 0;
  Usage usage_;
};

RequestActor::behavior_type make_embedding(EmbeddingState::Self self, Environment environment,
                                           EmbeddingPeers peers, EmbeddingStart start);

}  // namespace troupe
