// SPDX-License-Identifier: Apache-2.0
// A seed unfolds into a scenario: a server, its clients, its misfortunes. It is
// run to its end and every invariant is checked on the way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sim {

struct ScenarioResult {
  std::string name;
  std::vector<std::string> violations;  // empty: all is well
  std::uint64_t trace_hash = 0;
  std::uint64_t num_steps = 0;  // messages handled
  std::uint64_t num_requests = 0;
  std::uint64_t num_devices = 0;
  std::uint64_t num_workers = 0;
  std::uint64_t num_moved = 0;  // sequences, to another worker
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_masks_in_time = 0, num_masks_late = 0;  // of those that batches awaited
  std::uint64_t num_copies_within = 0;                      // parts of pages that were shared
  // Clients that left while pages were on their way: from the host, to it, from the disk.
  std::uint64_t num_left_in_load = 0, num_left_in_store = 0, num_left_in_read = 0;
  std::uint64_t num_written = 0, num_read = 0;  // pages, to the disk and from it
  // Of the runs with a second model, which encodes:
  std::uint64_t num_inputs = 0, num_vectors = 0;  // asked for, given
  std::uint64_t num_died_beside_full = 0;         // workers, while another one had all that it may
  // Of the runs with two chat models: answers of each that came to their end.
  std::uint64_t num_first_answers = 0, num_second_answers = 0;
  std::uint64_t num_called_answers = 0;  // answers that called a tool and came to their end
};

ScenarioResult run_scenario(std::uint64_t seed);

}  // namespace troupe::sim
