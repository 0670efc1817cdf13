// SPDX-License-Identifier: Apache-2.0
// A core with devices that finish a batch when the test says so. The token after
// a sequence's n-th is 100 + n, on whatever worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_core.hpp"
#include "gpu/program/mask_slot.hpp"

namespace troupe {

class CoreWorld {
 public:
  static constexpr std::uint32_t kPageSize = 4;

  // What came out for one sequence.
  struct Answer {
    std::vector<std::int32_t> tokens;
    std::vector<SequenceStarted> started;
    std::vector<StopReason> stopped;
    std::vector<ReservationChanged> reserved;
    std::optional<SequenceFailed> failed;
    std::uint64_t num_batches = 0;  // that its last token says it was in
    bool has_ended = false;
  };

  explicit CoreWorld(CoreOptions options = small_options());
  static CoreOptions small_options();

  void hand(const Event& event);
  void start_worker(WorkerId worker, std::uint32_t num_pages = 16, std::uint32_t num_host_pages = 0);
  // One whose device waits for masks. A batch that is finished without a mask draws nothing for its slice.
  void start_waiting_worker(WorkerId worker);
  // One whose device hands out states: a sequence's is its number and 0.5.
  void start_handing_worker(WorkerId worker, std::uint32_t num_pages = 16);
  void lose_worker(WorkerId worker);
  SequenceId admit(std::vector<std::int32_t> prompt, std::uint32_t max_tokens);
  // end_token: -1: none.
  SequenceId admit_guided(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                          std::int32_t end_token = -1);
  // It goes on behind as many tokens as this. guided: so, too.
  SequenceId admit_drawn(std::uint32_t num_drawn, std::uint32_t max_tokens, bool guided = false);
  // The next token behind as many as this, for a search.
  SequenceId admit_step(std::uint32_t num_drawn, bool has_begun);
  // Its client knows the length of its answer.
  SequenceId admit_known(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                         std::uint32_t answer_tokens);
  // Its client foretells that length, and the answer goes on to max_tokens.
  SequenceId admit_foretold(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                            std::uint32_t foretold_tokens);
  void forecast(SequenceId id, std::uint32_t reserved_tokens, std::uint32_t likely_tokens = 1);
  void refine(SequenceId id, std::uint32_t reserved_tokens);
  // A look's guess, by the state at its answer's token num_generated.
  void look(SequenceId id, std::uint32_t reserved_tokens, std::uint32_t num_generated);
  // A mask of one token for the sequence's next one.
  void allow(SequenceId id, std::uint32_t num_generated);
  // Guided: up to num_free tokens are free, and one more is allowed behind them.
  SequenceId admit_free(std::vector<std::int32_t> prompt, std::uint32_t max_tokens, std::uint32_t num_free);
  // The same is said of its next token.
  void allow_free(SequenceId id, std::uint32_t num_generated, std::uint32_t num_free);
  void finish_batch(WorkerId worker);
  void finish_all();  // until nothing is in flight

  const EngineCore& core() const { return core_; }
  const Answer& answer(SequenceId id) { return answers_[id]; }
  const std::deque<SubmitBatch>& in_flight(WorkerId worker) { return in_flight_[worker]; }
  // Is the sequence in a batch in flight on this worker?
  bool is_in_flight(SequenceId id, WorkerId worker);
  std::vector<std::uint64_t> flushed;
  std::vector<ForecastLength::Question> asked;  // of the predictor
  std::vector<LearnLength> learnt;              // told to it
  std::chrono::nanoseconds now{1};
  // How long the next batches are said to have waited for each mask.
  std::chrono::nanoseconds mask_wait{0};
  // Drawn by a sequence's next slice that has no mask of few tokens, in place of its next token.
  std::map<SequenceId, std::int32_t> drawn_next;
  // Handed to slots, in order; empty: the slot was closed.
  std::vector<TokenMask> handed;
  // The one token that the mask of the sequence's slice allows, be it in its slot or with it; -1: there is no
  // such mask.
  std::int32_t allowed_token(const Batch& batch, SequenceId id) const;

 private:
  void start_worker(WorkerId worker, const DeviceDescription& device);
  void take(const Emit& command);
  std::int32_t draw(const Batch& batch, std::size_t slice);
  std::shared_ptr<const TokenMask> mask_in(
      const std::shared_ptr<MaskSlot>& slot) const;  // null: none is there
  SequenceId admit(AdmissionTicket ticket);

  EngineCore core_;
  std::map<SequenceId, Answer> answers_;
  std::map<WorkerId, std::deque<SubmitBatch>> in_flight_;
  std::map<WorkerId, Epoch> epochs_;
  std::map<std::shared_ptr<MaskSlot>, std::shared_ptr<const TokenMask>> masks_;  // the first handed to each
  std::map<SequenceId, bool> has_no_token_;                                      // its last draw drew nothing
  Epoch last_epoch_ = 0;
  SequenceId last_sequence_ = 0;
};

// first, first + 1, …
std::vector<std::int32_t> counting(std::int32_t first, std::size_t count);

}  // namespace troupe
