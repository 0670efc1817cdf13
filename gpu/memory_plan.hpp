// SPDX-License-Identifier: Apache-2.0
// How a device's memory is divided, computed before the first allocation and
// logged: what does not fit is refused with numbers at start, never met as an
// out-of-memory later. A pure function; all sizes in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct MemoryRequest {
  std::uint64_t weight_bytes = 0;     // as the device keeps them (packed)
  std::uint64_t table_bytes = 0;      // rotary tables and the like
  std::uint64_t arena_bytes = 0;      // temporaries of the largest programs
  std::uint64_t workspace_bytes = 0;  // of kernels, and what describes batches to them
  std::uint64_t graph_bytes = 0;      // captured graphs, at most
  std::uint64_t page_bytes = 0;       // one KV page over all layers; 0: the model has none
  std::uint64_t slot_bytes = 0;       // device state of one running sequence
  std::uint32_t page_size = 0;        // tokens a KV page
  std::uint32_t num_slots = 0;
  std::uint32_t context_length = 0;  // longest sequence, tokens
  std::uint32_t max_pages = 0;       // 0: as many as fit
  std::uint64_t budget_bytes = 0;
};

struct MemoryPlan {
  MemoryRequest request;
  std::uint32_t num_pages = 0;
  std::uint64_t slots_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t total_bytes = 0;  // <= request.budget_bytes
};

// Throws std::runtime_error with the numbers if the budget does not hold
// everything and, where there are pages, those of one sequence of full length.
MemoryPlan plan_memory(const MemoryRequest& request);

// A table of several lines, for the log.
std::string to_string(const MemoryPlan& plan);

// "3.2 GiB", "17.5 MiB", "640 B".
std::string shown_bytes(std::uint64_t bytes);

}  // namespace troupe
