// SPDX-License-Identifier: Apache-2.0
// CAF's names for the messages and the typed handles of the actors. Messages
// never leave the process through CAF, so none of them has an inspector; that
// also keeps prompts out of anything CAF might print.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/replies_to.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages.hpp"

// clang-format off
#define TROUPE_MESSAGES(ADD)                                                                     \
  ADD(BeginRequest) ADD(CancelRequest) ADD(ResumeRequest) ADD(EncodePrompt) ADD(PromptEncoded)   \
  ADD(DropPrompt) ADD(TextEncoded) ADD(ReadPrompt) ADD(PromptRead)                                                              \
  ADD(ReadConversation) ADD(ConversationRead) ADD(SaveResponse) ADD(ResponseSaved)               \
  ADD(JournalRequest) ADD(RequestJournaled) ADD(JournalStart) ADD(JournalTokens) ADD(JournalUnbound) ADD(EndJournal) ADD(JournalEnded)                   \
  ADD(AnswerQuery) ADD(OpenStore) ADD(CommitResponses) ADD(PurgeResponses)                       \
  ADD(OverwriteRemoved) ADD(WriteTurns) ADD(MakeRoom) ADD(RoomMade)                                              \
  ADD(DiskShort) ADD(DiskMayGrow) ADD(DiskGaveWay)                                               \
  ADD(Admit) ADD(StopSequence) ADD(PauseSequence) ADD(ResumeSequence) ADD(Admitted)              \
  ADD(AllowTokens) ADD(ForecastLength) ADD(LearnLength) ADD(LengthForecast) ADD(ReservationChanged)                                                                               \
  ADD(SequenceStarted) ADD(SequenceStopped) ADD(NewToken) ADD(ScorePrompt) ADD(Encoded) ADD(RequestFailed)                     \
  ADD(TransferPages) ADD(TransfersDone) ADD(DiskDoorbell) ADD(FlushEverything) ADD(ForgetPages)  \
  ADD(WorkerReady) ADD(SubmitBatch) ADD(BatchDone) ADD(StartDevice) ADD(Doorbell)                \
  ADD(PollDevice) ADD(WorkerFailed) ADD(WorkerLost) ADD(WorkerStalled) ADD(AbandonDevice)        \
  ADD(MeetSupervisor) ADD(DeathsForgiven) ADD(CheckPulse) ADD(StopActors) ADD(SchedulerTick) \
  ADD(TimerFired)
// clang-format on

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
#define TROUPE_ADD_TYPE_ID(name) CAF_ADD_TYPE_ID(troupe, (troupe::name))
TROUPE_MESSAGES(TROUPE_ADD_TYPE_ID)
#undef TROUPE_ADD_TYPE_ID
CAF_END_TYPE_ID_BLOCK(troupe)

#define TROUPE_ALLOW(name) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::name)
TROUPE_MESSAGES(TROUPE_ALLOW)
#undef TROUPE_ALLOW
#undef TROUPE_MESSAGES

namespace troupe {

using RequestActor =
    caf::typed_actor<caf::reacts_to<BeginRequest>, caf::reacts_to<CancelRequest>,
                     caf::reacts_to<ResumeRequest>, caf::reacts_to<PromptEncoded>,
                     caf::reacts_to<ConversationRead>, caf::reacts_to<ResponseSaved>,
                     caf::reacts_to<RequestJournaled>, caf::reacts_to<JournalEnded>, caf::reacts_to<Admitted>,
                     caf::reacts_to<SequenceStarted>, caf::reacts_to<SequenceStopped>,
                     caf::reacts_to<ReservationChanged>, caf::reacts_to<NewToken>,
                     caf::reacts_to<ScorePrompt>, caf::reacts_to<Encoded>, caf::reacts_to<RequestFailed>>;

using ResponseStoreActor =
    caf::typed_actor<caf::reacts_to<ReadConversation>, caf::reacts_to<SaveResponse>,
                     caf::reacts_to<JournalRequest>, caf::reacts_to<JournalStart>,
                     caf::reacts_to<JournalTokens>, caf::reacts_to<JournalUnbound>,
                     caf::reacts_to<EndJournal>, caf::reacts_to<AnswerQuery>, caf::reacts_to<OpenStore>,
                     caf::reacts_to<CommitResponses>, caf::reacts_to<PurgeResponses>,
                     caf::reacts_to<OverwriteRemoved>, caf::reacts_to<WriteTurns>, caf::reacts_to<RoomMade>>;

using PromptEncoderActor =
    caf::typed_actor<caf::reacts_to<EncodePrompt>, caf::reacts_to<DropPrompt>, caf::reacts_to<TextEncoded>>;

using EncodingThreadActor = caf::typed_actor<caf::reacts_to<EncodePrompt>>;

using SchedulerActor =
    caf::typed_actor<caf::reacts_to<Admit>, caf::reacts_to<StopSequence>, caf::reacts_to<PauseSequence>,
                     caf::reacts_to<ResumeSequence>, caf::reacts_to<AllowTokens>,
                     caf::reacts_to<LengthForecast>, caf::reacts_to<TransfersDone>, caf::reacts_to<DiskShort>,
                     caf::reacts_to<DiskMayGrow>, caf::reacts_to<ForgetPages>,
                     caf::reacts_to<FlushEverything>, caf::reacts_to<WorkerReady>, caf::reacts_to<BatchDone>,
                     caf::reacts_to<WorkerLost>, caf::reacts_to<MeetSupervisor>,
                     caf::reacts_to<SchedulerTick>, caf::reacts_to<TimerFired>, caf::reacts_to<CheckPulse>>;

using PredictorActor =
    caf::typed_actor<caf::reacts_to<ForecastLength>, caf::reacts_to<LearnLength>, caf::reacts_to<PromptRead>>;

// To the scheduler it is a request.
using PromptReaderActor = RequestActor::extend<caf::reacts_to<ReadPrompt>, caf::reacts_to<DropPrompt>>;

using CacheTierActor =
    caf::typed_actor<caf::reacts_to<TransferPages>, caf::reacts_to<DiskGaveWay>, caf::reacts_to<DiskDoorbell>,
                     caf::reacts_to<MakeRoom>, caf::reacts_to<CheckPulse>>;

using WorkerActor = caf::typed_actor<caf::reacts_to<StartDevice>, caf::reacts_to<AbandonDevice>>;

using BatchRunnerActor = caf::typed_actor<caf::reacts_to<SubmitBatch>, caf::reacts_to<Doorbell>,
                                          caf::reacts_to<PollDevice>, caf::reacts_to<AbandonDevice>>;

using SupervisorActor =
    caf::typed_actor<caf::reacts_to<WorkerReady>, caf::reacts_to<WorkerFailed>, caf::reacts_to<WorkerStalled>,
                     caf::reacts_to<DeathsForgiven>, caf::reacts_to<CheckPulse>, caf::reacts_to<StopActors>>;

}  // namespace troupe
