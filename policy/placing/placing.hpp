// SPDX-License-Identifier: Apache-2.0
// The worker of a request that is to start: the one whose device has most of the
// request's beginning; where none has any, the one with most room. One that runs more
// than twice as many as the least busy, and one, is not gone to for what it has: a
// beginning that all requests share would bring them all to the worker that had it first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe {

struct PlacingCandidate {
  std::uint32_t known_tokens = 0;  // of the request's, whose KV is on its device
  std::uint32_t num_running = 0;
  std::uint32_t num_free_pages = 0;  // and pages that may be given away
};

// The index of the chosen candidate, ties to the lowest; nullopt: there is none.
std::optional<std::size_t> choose_worker(std::span<const PlacingCandidate> candidates);

}  // namespace troupe
