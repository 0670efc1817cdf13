// SPDX-License-Identifier: Apache-2.0
// Every message between actors: plain copyable values, no CAF. Big payloads
// travel as shared_ptr<const T>. The core's events and commands (engine/) travel
// between actors as they are. Most messages go one way and are answered, if at all,
// by a message of their own: nothing waits on a time-out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/api_error.hpp"
#include "actors/request/generation_request.hpp"
#include "actors/request/prompt/encoded_prompt.hpp"
#include "engine/command.hpp"
#include "engine/event.hpp"
#include "engine/sequence_output.hpp"
#include "store/answer_journal.hpp"

namespace troupe {

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
// A request in the background enters the journal (store/answer_journal.hpp).
struct JournalRequest {
  std::shared_ptr<const JournaledAnswer> answer;
};
struct RequestJournaled {
  std::optional<ApiError> error;  // none: it is on the disk
};
struct JournalStart {  // it runs
  std::string response;
};
struct JournalTokens {
  std::string response;
  std::uint64_t vocabulary = 0;
  std::uint64_t first = 0;  // their place in the answer
  std::vector<std::int32_t> tokens;
};
struct JournalUnbound {  // its calls, from this place in the answer on
  std::string response;
  std::uint64_t vocabulary = 0;
  std::uint32_t from = 0;
};
struct EndJournal {
  std::string response;
  bool wants_answer = false;
};
struct JournalEnded {};

// engine → response store
class StoreReply;
struct AnswerQuery {
  StoreQuery query;
  std::shared_ptr<StoreReply> reply;
};

// response store → itself
struct OpenStore {};
struct CommitResponses {};  // the ones that came while others were being written
struct PurgeResponses {};
struct OverwriteRemoved {};  // the bytes removed since the last time
struct WriteTurns {};        // request → response store: the memory of turns has changed

// request ↔ prompt encoder → encoding thread
struct EncodePrompt {
  SequenceId sequence = 0;
  std::size_t num_bytes = 0;  // of text
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<const Conversation> conversation;  // null: there is none to continue
  std::shared_ptr<const std::atomic<bool>> is_abandoned;
  std::chrono::steady_clock::time_point deadline;
};
struct DropPrompt {  // its answer is not awaited any more
  SequenceId sequence = 0;
};
struct PromptEncoded {
  SequenceId sequence = 0;
  std::shared_ptr<const EncodedPrompt> prompt;  // null: error says why
  ApiError error;
};
// encoding thread → prompt encoder, also of prompts that were abandoned
struct TextEncoded {
  std::size_t lane = 0;
  SequenceId sequence = 0;
  PromptEncoded result;
};

// request → itself
struct ScorePrompt {};  // the next tokens of a prompt whose log-probabilities are wanted

// request → scheduler: Admit, StopSequence, PauseSequence, ResumeSequence, AllowTokens (engine/event.hpp)

// scheduler → request: Admitted, SequenceStarted, SequenceStopped, ReservationChanged, NewToken
// (engine/sequence_output.hpp), and:
// Refused at admission, given up later, or the engine has failed.
struct RequestFailed {
  ApiError error;
  SequenceId sequence = 0;
};

// scheduler → predictor: ForecastLength, LearnLength (engine/command.hpp); back: LengthForecast
// (engine/event.hpp)

// predictor ↔ prompt reader, and DropPrompt
struct ReadPrompt {  // of a sequence that waits
  std::shared_ptr<const AdmissionTicket> ticket;
};
struct PromptRead {
  SequenceId sequence = 0;
  ModelIndex model = 0;                              // of the sequence
  std::shared_ptr<const std::vector<float>> vector;  // null: it could not be read
};
// prompt reader ↔ scheduler: as a request

// scheduler ↔ cache tier: TransferPages (engine/command.hpp), TransfersDone (engine/event.hpp)
// and DiskShort, DiskMayGrow (engine/event.hpp), DiskGaveWay (engine/command.hpp)
struct DiskDoorbell {};  // disk tier → cache tier: transfers are done
// response store ↔ cache tier: the disk is full, KV is to make room
struct MakeRoom {};
struct RoomMade {};  // as far as there was KV to go

// engine → scheduler: let go of when what is to be on disk is there
struct FlushEverything {
  std::shared_ptr<const void> waiting;
};
// response store → scheduler: ForgetPages (engine/event.hpp)

// scheduler → batch runner: SubmitBatch (engine/command.hpp)
// batch runner → scheduler: WorkerReady, to the supervisor too, and BatchDone (engine/event.hpp)

// within and around the worker
struct StartDevice {};
struct Doorbell {};  // the device says that a batch is done
struct PollDevice {};

// supervision
struct WorkerFailed {  // batch runner, or worker that has none → supervisor, its last words
  WorkerId worker = 0;
  Epoch epoch = 0;
  std::uint64_t batch_id = 0;            // the batch that did it; 0: unknown
  std::optional<ModelIndex> model = {};  // of the device; none: unknown
  bool was_starting = false;
  std::string reason;
};
struct AbandonDevice {  // supervisor → worker → batch runner: its device hangs
  Epoch epoch = 0;
  ModelIndex model = 0;
  std::string reason;
};
struct MeetSupervisor {};  // supervisor → scheduler, at start
// engine → supervisor → scheduler → cache tier, which notes it on the board: they act
struct CheckPulse {
  std::uint64_t number = 0;
};
struct StopActors {};  // engine → supervisor: end everything, in order

}  // namespace troupe
