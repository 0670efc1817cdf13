// SPDX-License-Identifier: Apache-2.0
#include "http/routing/tenant_accounts.hpp"

#include <chrono>

namespace troupe {

void TenantAccounts::replace(const ServerOptions& options) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  for (const ApiKey& key : options.api_keys) {
    auto& account = accounts_[key.tenant];
    const TenantLimits& limits = options.tenant_limits.of(key.tenant);
    if (account) {
      account->set_limits(limits, now);
    } else {
      const auto number = static_cast<std::uint32_t>(accounts_.size());
      account =
          std::make_shared<TenantAccount>(key.tenant, number, limits, metrics_.of_tenant(key.tenant), now);
    }
  }
}

std::shared_ptr<TenantAccount> TenantAccounts::find(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? nullptr : found->second;
}

}  // namespace troupe
