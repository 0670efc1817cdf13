// SPDX-License-Identifier: Apache-2.0
// Every message between actors: plain copyable values, no CAF. Big payloads
// travel as shared_ptr<const T>; KV pages travel as leases, so a message that
// nobody receives gives them back. Most go one way and are answered, if at all,
// by a message of their own: nothing waits on a time-out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/api_error.hpp"
#include "actors/encoded_prompt.hpp"
#include "actors/generation_request.hpp"
#include "actors/page_lease.hpp"
#include "gpu/batch.hpp"
#include "gpu/device.hpp"
#include "policy/token_range.hpp"

namespace troupe {

// The engine's number of a request; the scheduler's sequence has the same one.
using SequenceId = std::uint64_t;
// Counts the devices a scheduler has had; what was said of an older one is void.
using Epoch = std::uint64_t;

// engine → request
struct BeginRequest {};
struct CancelRequest {};
struct ResumeRequest {};

// request ↔ response store
struct ReadConversation {
  std::string tenant;
  std::string response;
};
struct ConversationRead {
  std::shared_ptr<const Conversation> conversation;  // null: error says why
  ApiError error;
};
struct SaveResponse {
  std::shared_ptr<const StoredResponse> response;
};
struct ResponseSaved {
  std::optional<ApiError> error;  // none: it is on the disk
};

// engine → response store
class StoreReply;
struct AnswerQuery {
  StoreQuery query;
  std::shared_ptr<StoreReply> reply;
};

// response store → itself
struct OpenStore {};
struct CommitResponses {};  // those that came while others were being written
struct PurgeResponses {};

// request ↔ prompt encoder
struct EncodePrompt {
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<const Conversation> conversation;  // null: there is none to continue
  std::shared_ptr<const std::atomic<bool>> is_abandoned;
};
struct PromptEncoded {
  std::shared_ptr<const EncodedPrompt> prompt;  // null: error says why
  ApiError error;
};

// request → scheduler
struct AdmissionTicket {
  SequenceId sequence = 0;
  std::vector<std::int32_t> prompt;
  SamplingParameters sampling;
  std::optional<std::uint32_t> max_tokens;
  std::uint32_t min_tokens = 0;
  std::vector<std::int32_t> end_tokens;        // end the sequence when drawn
  std::vector<std::int32_t> suppressed_early;  // not drawn before min_tokens
  // With a repetition penalty: the prompt's token ids, each once, ascending.
  std::vector<std::int32_t> repeated_prompt;
  bool scores_prompt = false;  // log-probabilities of the prompt's tokens, too
  std::string cache_salt;
  TraceContext trace;  // valid: the spans of its iterations are to link to it
};
struct Admit {
  std::shared_ptr<const AdmissionTicket> ticket;
};
struct StopSequence {
  SequenceId sequence = 0;
};
struct PauseSequence {
  SequenceId sequence = 0;
};
struct ResumeSequence {
  SequenceId sequence = 0;
};

// scheduler → request
struct Admitted {};
// It has got pages and a slot, be it for the first time or again.
struct SequenceStarted {
  using TimePoint = std::chrono::steady_clock::time_point;
  TimePoint queued;                        // began to wait
  TimePoint asked;                         // pages were asked for the first time since
  TimePoint load_began = {}, loaded = {};  // from the disk, meanwhile; the epoch: it was not
  TimePoint started;
  std::uint32_t num_known = 0;      // prompt and what was generated before
  std::uint32_t cached_tokens = 0;  // of these, found in shared pages
  KvSources sources = {};
  Epoch epoch = 0;
};
// It had pages and a slot and gave them up before its end.
enum class StopReason : std::uint8_t {
  kPreempted,
  kPaused,
  kWorkerLost,
  kContextLost,  // a page of its context could not be loaded
};
struct SequenceStopped {
  StopReason reason = StopReason::kPreempted;
  std::chrono::steady_clock::time_point time;
  bool is_paused = false;  // it waits for its client, not for its turn
};
enum class SequenceEnd : std::uint8_t { kNotYet, kEndToken, kLength };
struct NewToken {
  std::int32_t token = -1;  // -1: none came with the end
  std::uint32_t cached_tokens = 0;
  SequenceEnd end = SequenceEnd::kNotYet;
  std::chrono::steady_clock::time_point started = {};  // when its first turn came
  std::shared_ptr<const TokenLogprobs> logprobs = {};  // null: not asked for
  // Once, if they were asked for: the prompt's, from its second token on.
  std::shared_ptr<const std::vector<TokenLogprobs>> prompt_logprobs = {};
};
// Refused at admission, given up later, or the engine has failed.
struct RequestFailed {
  ApiError error;
};

// scheduler ↔ cache tier
struct ResetPages {  // a new device: everything known of the old one is void
  Epoch epoch = 0;
  std::uint32_t num_pages = 0;
  std::uint32_t num_host_pages = 0;
  std::uint32_t page_size = 0;
};
struct PageRequest {
  SequenceId sequence = 0;
  std::uint64_t run = 0;  // which run of the sequence asks; comes back unchanged
  std::uint32_t required = 0;
  std::uint32_t wanted = 0;
};
struct ReservePages {
  Epoch epoch = 0;
  PageRequest request;
  std::shared_ptr<const std::vector<std::int32_t>> tokens;
  std::string cache_salt;
  std::uint32_t keep_free = 0;
  // What only the disk has is fetched first, and PagesReserved comes empty. At
  // the second time this is false: what has not come by then is computed.
  bool may_fetch = false;
  std::uint32_t fetched_tokens = 0;  // by the fetch before
};
struct PagesReserved {
  Epoch epoch = 0;
  PageRequest request;
  bool is_fetching = false;  // PagesFetched will come
  LeasePtr lease;            // null: not enough pages now
  std::vector<PageId> pages;
  // What was found: the KV of the first tokens, but for the holes.
  std::uint32_t known_tokens = 0;
  std::vector<TokenRange> holes;
  KvSources sources = {};
  std::vector<PageMove> moves;  // for the next batch, whoever is in it
};
struct PagesFetched {
  SequenceId sequence = 0;
  std::uint64_t run = 0;
  std::uint32_t num_tokens = 0;  // that were on disk and now are on the host
};
struct PageExtension {
  PageRequest request;
  LeasePtr lease;
};
struct ExtendPages {
  Epoch epoch = 0;
  std::vector<PageExtension> extensions;
};
struct ExtendedPages {
  PageRequest request;
  std::vector<PageId> pages;  // empty: refused
};
struct PagesExtended {
  Epoch epoch = 0;
  std::vector<ExtendedPages> extensions;
  std::vector<PageMove> moves;  // for the next batch
};
struct PageCommit {
  LeasePtr lease;
  std::uint32_t first_page = 0;      // index into the lease's pages
  std::vector<std::int32_t> tokens;  // one or more full pages, in order
};
struct CommitPages {
  Epoch epoch = 0;
  std::vector<PageCommit> commits;
};
// The device did not find these contents in the host tier, or not intact.
struct VoidContents {
  Epoch epoch = 0;
  std::vector<std::uint64_t> generations;
};
// Copies made ahead of need, for the next batch.
struct MovePages {
  Epoch epoch = 0;
  std::vector<PageMove> moves;
  bool may_go_alone = false;  // when nothing runs: somebody wants them on the host
};
// A batch is done, and these were in it.
struct MovesDone {
  Epoch epoch = 0;
  std::vector<PageMove> moves;
};
struct DiskDoorbell {};  // the disk tier says that transfers are done
// engine → scheduler, which passes it on when nothing runs → cache tier, which
// lets go of it when nothing is on its way to the disk any more
struct FlushPages {
  std::shared_ptr<const void> waiting;
};
// response store → cache tier: this conversation is over, but for its
// first tokens
struct ForgetPages {
  std::shared_ptr<const std::vector<std::int32_t>> tokens;
  std::size_t num_kept = 0;
  std::string cache_salt;
};
struct CollectPages {};  // leases were let go of: look into the return bin

// scheduler ↔ worker
struct WorkerReady {  // also to the supervisor
  Epoch epoch = 0;
  DeviceDescription description;
  bool can_be_abandoned = false;  // as the device says
};
struct SubmitBatch {
  Epoch epoch = 0;
  std::shared_ptr<const Batch> batch;
};
struct BatchDone {
  Epoch epoch = 0;
  BatchResult result;
};

// within and around the worker
struct StartDevice {};
struct Doorbell {};  // the device says that a batch is done
struct PollDevice {};

// supervision
struct WorkerFailed {  // worker → supervisor, its last words
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;  // the batch that did it; 0: unknown
  bool was_starting = false;
  std::string reason;
};
struct WorkerLost {  // supervisor → scheduler; a new one will say WorkerReady
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;
};
struct AbandonDevice {  // supervisor → worker: its device hangs
  Epoch epoch = 0;
  std::string reason;
};
struct MeetSupervisor {};  // supervisor → scheduler, at start
struct WorkerStalled {     // scheduler → supervisor: nothing has come for far too long
  Epoch epoch = 0;
  std::string reason;
};
struct DeathsForgiven {  // scheduler → supervisor: a request was to blame, and is set apart
  std::vector<Epoch> epochs;
};
struct StopActors {};  // engine → supervisor: end everything, in order

// scheduler → itself, while any request is open
struct SchedulerTick {};

}  // namespace troupe
