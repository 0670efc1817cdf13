// SPDX-License-Identifier: Apache-2.0
// When the request in turn finds no slot, or no pages: which running sequence
// gives its own up for it. Only sequences of other flows do, and only for a flow
// that has less than its share, so flows that have their shares leave each other
// alone however many wait:
//
//   share = capacity / flows that wait or run, at least 1
//   a flow above its share yields to one that stays within its own with what it gets;
//   more flows than slots, and none has two: a flow with nothing gets a turn when one
//   that runs is ahead of it by kTurn.
//
// A sequence yields only after it has got on by kLeastProgress since it began to
// run, so each turn that is taken away was worth something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe {

// A running sequence.
struct Holding {
  std::uint64_t flow = 0;
  std::uint64_t arrival = 0;
  std::uint32_t num_held = 0;        // of what is short: its one slot, or its pages
  std::uint32_t num_progressed = 0;  // tokens since it began to run that a stop does not undo
  std::uint64_t served = 0;          // its flow's counter (FairQueue::served)
};

// The request in turn.
struct Claim {
  std::uint64_t flow = 0;
  std::uint32_t num_needed = 0;
  std::uint64_t served = 0;     // its flow's counter
  std::uint32_t capacity = 0;   // slots or pages in all
  std::uint32_t num_flows = 0;  // that wait or run
};

inline constexpr std::uint32_t kLeastProgress = 16;  // tokens
inline constexpr std::uint64_t kTurn = 1024;         // cost of tokens, as FairQueue charges it

// The index of the sequence that yields: of the flow that holds most (equal: the one
// served most), the one that arrived last. nullopt: the request waits.
std::optional<std::size_t> choose_yielding(std::span<const Holding> running, const Claim& claim);

}  // namespace troupe
