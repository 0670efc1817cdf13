// SPDX-License-Identifier: Apache-2.0
// How much of the server one tenant may use. Plain values, as the keys' file gives them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

// 0: no limit.
struct TenantLimits {
  std::uint32_t max_requests = 0;       // under way at once
  std::uint64_t max_tokens = 0;         // of requests under way: prompts, and the most that answers may have
  std::uint64_t tokens_per_minute = 0;  // prompts and answers, on average
  // Tokens that a tenant can use at once after a pause; 0: a minute's.
  std::uint64_t burst_tokens = 0;
  double cache_share = 0;  // of the KV pages of each tier (policy/pages/cache_quotas.hpp), in (0, 1]

  std::uint64_t burst() const { return burst_tokens > 0 ? burst_tokens : tokens_per_minute; }
  bool operator==(const TenantLimits&) const = default;
};

struct TenantLimitTable {
  std::map<std::string, TenantLimits> by_tenant;
  TenantLimits others;  // of tenants that are not named

  const TenantLimits& of(const std::string& tenant) const {
    const auto found = by_tenant.find(tenant);
    return found == by_tenant.end() ? others : found->second;
  }
  bool operator==(const TenantLimitTable&) const = default;
};

}  // namespace troupe
