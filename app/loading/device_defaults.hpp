// SPDX-License-Identifier: Apache-2.0
// Numbers that options leave to the device ("auto"), from the device, the model and the machine.
#pragma once

#include <cstdint>

namespace troupe {

enum class DeviceKind : std::uint8_t { kCpu, kGpu };

// Batches submitted to CPU cores and not yet done: one computes, one waits. A GPU's depth is its backend's
// (gpu/cuda/in_flight_depth.hpp).
inline constexpr std::uint32_t kDefaultInFlight = 2;

// Sequences that run at once. Decode on a GPU is bound by reading weights up to some hundred rows; on CPU
// cores products are bound by arithmetic long before.
std::uint32_t default_sequences(DeviceKind kind);

struct HostTierFacts {
  DeviceKind kind = DeviceKind::kCpu;
  std::uint64_t device_kv_bytes = 0;  // of all workers
  std::uint64_t available_bytes = 0;  // of the host, before the tier is made
  double share = 1;                   // of what is for all models together
};

// Host memory for KV that had to leave the device, at most. For GPUs twice their KV: the page cache then
// holds three times what the GPUs do. A quarter of what is available is the bound, for it is pinned as a
// whole at the start, and files are cached in the rest. CPU cores have their KV in the same memory, so copies
// of it save little.
std::uint64_t host_tier_bytes(const HostTierFacts& facts);

}  // namespace troupe
