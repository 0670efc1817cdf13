// SPDX-License-Identifier: Apache-2.0
// Explores a small world breadth first: every action in every state, each state once.
// States are told apart by their fingerprints and made again from the actions that led
// to them, so that a state costs some 60 bytes and 10,000,000 fit into memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/small_world.hpp"

namespace troupe {

struct ExploreLimits {
  std::size_t max_states = 100'000;
  // Each so many-th state is run to its end (0: none); each so many-th meeting of two paths in one
  // state is looked at from both.
  std::size_t drain_every = 16, compare_every = 64;
};

struct Exploration {
  std::size_t num_states = 0, num_steps = 0, num_meetings = 0, num_ended = 0;
  std::size_t num_drained = 0, num_compared = 0;
  std::size_t depth = 0;  // actions on the shortest path to the last state
  bool is_whole = false;  // there are no more states than these
  std::string violation;  // empty: none
  // A shortest one to it; to the state it began in, where that was run to its end.
  std::vector<SmallAction> path;

  // Numbers, or the violation and its path, line by line.
  std::string report() const;
};

Exploration explore(const SmallWorldSettings& settings, const ExploreLimits& limits);

}  // namespace troupe
