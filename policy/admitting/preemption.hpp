// SPDX-License-Identifier: Apache-2.0
// The running sequence that gives up its pages when they have run out: the one
// that arrived last. One that was preempted and has not got a token since is left
// alone, so nothing is preempted twice in a row for nothing; the one that arrived
// first never is, so one always gets on.
//
// Where several flows run, the flow that holds most pages gives, if that is more
// than its share of those that are held: otherwise one with old sequences would
// grow at the cost of all newcomers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe {

struct PreemptionCandidate {
  std::uint64_t arrival = 0;
  bool has_progressed = true;  // since it was last preempted
  std::uint64_t flow = 0;
  std::uint32_t num_pages = 0;
};

// The index of the victim; may be the needy itself. Within one flow it arrived no
// earlier than the needy. nullopt: wait instead.
std::optional<std::size_t> choose_victim(std::span<const PreemptionCandidate> running,
                                         std::uint64_t needy_arrival);

}  // namespace troupe
