// SPDX-License-Identifier: Apache-2.0
// The running state of a request, as the scheduler keeps it. Its raw tokens
// are all that is needed to rebuild it on any device; everything on a device is
// held through the lease and the slot, and goes with them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/message_types.hpp"
#include "actors/messages.hpp"
#include "actors/token_counts.hpp"
#include "policy/sequence_progress.hpp"

namespace troupe {

struct Sequence {
  enum class Phase : std::uint8_t {
    kWaiting,    // for pages and a slot
    kReserving,  // waiting too; the cache tier has been asked
    kFetching,   // waiting too, for pages that come from the disk
    kRunning,    // has both
    kPaused,     // has neither: its client does not read
  };

  std::shared_ptr<const AdmissionTicket> ticket;
  RequestActor request;
  std::uint64_t arrival = 0;  // order of arrival
  std::chrono::steady_clock::time_point arrived;
  std::chrono::steady_clock::time_point queued;  // it waits since
  std::chrono::steady_clock::time_point asked;   // for pages, the first time since; epoch: not yet

  Phase phase = Phase::kWaiting;
  std::uint64_t run = 0;     // how often it was given pages; replies to older runs are void
  bool is_checked = false;   // against the device's limits
  bool is_paused = false;    // leaves the batch when nothing of it is in flight
  bool has_started = false;  // has been running once
  std::chrono::steady_clock::time_point started;  // when that began
  bool has_fetched = false;                       // what the disk has of it, since it waits
  std::chrono::steady_clock::time_point load_began, loaded;
  std::uint32_t fetched_tokens = 0;
  bool has_progressed = true;  // has got a token since it was last preempted
  bool is_extending = false;   // the cache tier has been asked for more pages

  std::vector<std::int32_t> tokens;            // prompt, then completion
  std::optional<TokenCounts> penalized;        // of these, if it has penalties
  std::vector<TokenLogprobs> prompt_logprobs;  // if they are wanted: from the second token on
  bool is_only_scored = false;                 // no token is wanted; the one that is drawn counts for nothing
  SequenceProgress progress;
  std::uint64_t last_batch = 0;  // the last it was in, or before which it began to run
  LeasePtr lease;
  std::vector<PageId> pages;
  SlotId slot = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt, when it first ran
  std::uint32_t num_given_up = 0;   // tokens computed when it last lost its pages

  SequenceId id() const { return ticket->sequence; }
  std::uint32_t num_generated() const {
    return static_cast<std::uint32_t>(tokens.size() - ticket->prompt.size());
  }
};

}  // namespace troupe
