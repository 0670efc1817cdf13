// SPDX-License-Identifier: Apache-2.0
// Who gives up its pages when they have run out: the running sequence that
// arrived last. One that was preempted and has not got a token since is left
// alone, so nobody is preempted twice in a row for nothing; the one that
// arrived first never is, so somebody always gets on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe {

struct PreemptionCandidate {
  std::uint64_t arrival = 0;
  bool has_progressed = true;  // since it was last preempted
};

// The index of the victim, which arrived no earlier than the needy; may be the
// needy itself. nullopt: wait instead.
std::optional<std::size_t> choose_victim(std::span<const PreemptionCandidate> running,
                                         std::uint64_t needy_arrival);

}  // namespace troupe
