// SPDX-License-Identifier: Apache-2.0
// The running state of a request, as the core keeps it. Its raw tokens are all
// that is needed to rebuild it on any device; everything on a device is held
// through the lease and the slot, and goes with them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/admission_ticket.hpp"
#include "engine/sequence_output.hpp"
#include "engine/token_counts.hpp"
#include "gpu/program/batch.hpp"
#include "policy/admitting/fair_queue.hpp"
#include "policy/forming/sequence_progress.hpp"
#include "policy/lengths/reservation.hpp"
#include "policy/pages/lease_book.hpp"

namespace troupe {

struct alignas(64) Sequence {
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class Phase : std::uint8_t {
    kWaiting,   // for pages and a slot
    kFetching,  // waiting too, for pages that come from the disk
    kRunning,   // has both, on one worker
    kPaused,    // has neither: its client does not read
  };

  // End tokens in place: every token that is drawn is compared with them.
  static constexpr std::size_t kFewEndTokens = 4;

  // Read or written for every token. The sequences of a thousand workers do not fit into a
  // processor's caches: a token costs the lines that it touches.
  std::uint64_t run = 0;  // unique; what was submitted or fetched for an older run is void
  SequenceId id = 0;      // 0: this place is free
  Phase phase = Phase::kWaiting;
  bool is_checked = false;      // against the devices' limits
  bool is_paused = false;       // leaves the batch when nothing of it is in flight
  bool has_started = false;     // has been running once
  bool has_fetched = false;     // its pages on disk, since it waits
  bool has_progressed = true;   // has got a token since it was last preempted
  bool is_only_scored = false;  // no token is wanted; the one that is drawn counts for nothing
  bool scores_prompt = false, wants_logprobs = false;  // as its ticket says
  bool is_guided = false;                              // so too: it has allowed_first
  bool is_guide_slow = false;                          // its masks took long: others do not wait for them
  std::uint8_t num_end_tokens = 0;                     // more than kFewEndTokens: they are in the ticket
  std::uint32_t num_prompt = 0;
  SequenceProgress progress;
  LeaseId lease = 0;  // while it runs
  FairQueue::FlowId flow = 0;
  std::uint64_t last_batch = 0;  // the last it was in, or before which it began to run
  std::uint32_t min_tokens = 0;
  std::uint32_t cached_tokens = 0;                       // of the prompt, when it first ran
  BatchTally batches;                                    // completed ones
  std::vector<PageId> pages;                             // while it runs
  TimePoint started;                                     // when it first ran
  bool is_penalized = false;                             // has `penalized`
  std::uint32_t length_due_at = ForeseenLength::kNever;  // tokens from which its length is to be asked

  // For every token of some.
  std::array<std::int32_t, kFewEndTokens> end_tokens = {};
  std::vector<std::int32_t> tokens;          // prompt, then completion; if the core keeps them
  std::optional<TokenCounts> penalized;      // of its tokens, if it has penalties
  std::shared_ptr<const TokenMask> allowed;  // if it is guided: for the next token; null: not known yet
  std::shared_ptr<const TokenMask> free;     // as AllowTokens says with `allowed`
  bool draws_again = false;                  // a free draw of the next token gave one that is not allowed
  // If it is guided: of each of its draws in flight; null: its mask went with it.
  std::vector<std::shared_ptr<MaskSlot>> mask_slots;
  std::uint32_t attempt = 0;               // steps in flight of an earlier one are void
  TimePoint drawn;                         // if it is guided: its last token was known
  std::chrono::nanoseconds guide_debt{0};  // its masks were waited for so long, less what quick ones pay back
  std::vector<TokenLogprobs> prompt_logprobs;  // if they are wanted: from the second token on
  std::string source_salt;                     // in place of the ticket's, if it has a source

  // When it comes, begins to run, stops or ends.
  ForeseenLength length;  // of its answer
  std::shared_ptr<const AdmissionTicket> ticket;
  std::uint64_t arrival = 0;  // order of arrival
  TimePoint arrived;
  TimePoint queued;  // it waits since
  TimePoint asked;   // when its turn to ask for pages first came since; epoch: not yet
  TimePoint load_began, loaded;
  std::uint32_t fetched_tokens = 0;
  std::uint32_t num_given_up = 0;            // tokens computed when it last lost its pages
  std::chrono::nanoseconds brought_back{0};  // the device's time for that, each time that it was preempted
  // When it last began to run: tokens known, and those of them whose KV was found.
  std::uint32_t num_known_at_start = 0, num_found_at_start = 0;
  WorkerId worker = 0;  // while it runs
  SlotId slot = 0;      // so too

  void reserve(std::uint32_t num_tokens, std::uint32_t page_size) {
    length.reserve(num_tokens, page_size);
    heed_length();
  }
  // After each change of `length`.
  void heed_length() { length_due_at = std::min(length.report_at, length.ends_at); }
  // Its length lies in a line that few tokens need.
  bool is_length_due() const { return num_generated() >= length_due_at; }
  bool nears_reservation() const { return is_length_due() && num_generated() >= length.report_at; }
  bool is_at_foreseen_end() const { return is_length_due() && num_generated() >= length.ends_at; }
  // That of the draw which is submitted next: `allowed` is for the oldest in flight, if there are any.
  bool is_mask_known() const { return allowed && progress.num_pending() == 0 && !draws_freely(); }
  // The next token is drawn from all there are, and those behind it ahead of time. It counts if it is
  // allowed, and they count if it is free. This hangs on the tokens before alone, never on time, or equal
  // seeds would not give equal answers.
  bool draws_freely() const { return free && !draws_again; }
  std::uint32_t num_generated() const { return progress.num_known() - num_prompt; }
  // It has an answer, and is no part of one.
  bool tells_length() const { return !is_only_scored && !ticket->is_search_step; }
  // No sequence of its request had a turn: it may still be refused.
  bool is_new() const { return !has_started && !ticket->has_begun; }
  // A step of a search that has begun: its client's request neither waits nor is looked up once more.
  bool is_later_step() const { return ticket->is_search_step && ticket->has_begun; }
  bool is_ended_by(std::int32_t token) const {
    const auto is_in = [token](const auto& ends, std::size_t count) {
      const auto behind = ends.begin() + static_cast<std::ptrdiff_t>(count);
      return std::find(ends.begin(), behind, token) != behind;
    };
    if (num_end_tokens <= kFewEndTokens) return is_in(end_tokens, num_end_tokens);
    return is_in(ticket->end_tokens, ticket->end_tokens.size());
  }
};

}  // namespace troupe
