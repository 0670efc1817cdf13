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
  std::uint64_t num_preemptions = 0;
  // Clients that left while pages were on their way: from the host, to it, from the disk.
  std::uint64_t num_left_in_load = 0, num_left_in_store = 0, num_left_in_read = 0;
  std::uint64_t num_written = 0, num_read = 0;  // pages, to the disk and from it
};

ScenarioResult run_scenario(std::uint64_t seed);

}  // namespace troupe::sim
