// SPDX-License-Identifier: Apache-2.0
#include "app/loading/device_defaults.hpp"

#include <algorithm>

namespace troupe {

std::uint32_t default_sequences(DeviceKind kind) { return kind == DeviceKind::kGpu ? 256 : 64; }

std::uint64_t host_tier_bytes(const HostTierFacts& facts) {
  constexpr std::uint64_t kOnCpu = std::uint64_t{1} << 30;
  const std::uint64_t for_all = facts.kind == DeviceKind::kGpu ? facts.available_bytes / 4 : kOnCpu;
  const auto part = static_cast<std::uint64_t>(static_cast<double>(for_all) * facts.share);
  if (facts.kind == DeviceKind::kCpu) return part;
  return std::min(part, 2 * facts.device_kv_bytes);
}

}  // namespace troupe
