// SPDX-License-Identifier: Apache-2.0
// The accounts of all tenants that have keys. They outlive changes of limits, as does all that is in use.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "actors/request/tenant_account.hpp"
#include "http/server/server.hpp"

namespace troupe {

// Any thread.
class TenantAccounts {
 public:
  // Metrics outlive this.
  TenantAccounts(Metrics& metrics, const ServerOptions& options) : metrics_(metrics) { replace(options); }

  // Tenants and limits of `options` take the place of those in force. A tenant whose keys are gone keeps
  // its account, as its requests may still be under way.
  void replace(const ServerOptions& options);
  // Null: no key is its.
  std::shared_ptr<TenantAccount> find(const std::string& tenant) const;

 private:
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<TenantAccount>> accounts_;
};

}  // namespace troupe
