// SPDX-License-Identifier: Apache-2.0
// A tenant's use and limits (policy/admitting/tenant_meter.hpp), shared by the connections that let
// its requests in and by the requests that use it. A tab is one client's request: all prompts and
// answers of it share the tab, and what it holds is given back when the last one lets go of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "actors/request/api_error.hpp"
#include "policy/admitting/tenant_limits.hpp"
#include "policy/admitting/tenant_meter.hpp"
#include "policy/pages/cache_quotas.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {

class TenantTab;

// Any thread.
class TenantAccount : public std::enable_shared_from_this<TenantAccount> {
 public:
  using TimePoint = TenantMeter::TimePoint;
  struct Standing {
    TenantLimits limits;
    TenantMeter::Reading reading;
  };

  // number: another one for each tenant, 1 or more.
  TenantAccount(std::string tenant, std::uint32_t number, const TenantLimits& limits, TenantMetrics metrics,
                TimePoint now);

  void set_limits(const TenantLimits& limits, TimePoint now);
  // For one more request; or why it is not let in.
  std::variant<std::shared_ptr<TenantTab>, ApiError> open(TimePoint now);
  Standing look(TimePoint now) const;
  CacheQuota cache_quota() const;

 private:
  friend class TenantTab;
  std::optional<ApiError> reserve(TenantTab& tab, std::uint64_t num_prompt, std::uint64_t max_drawn,
                                  TimePoint now);
  void use(std::uint64_t num_tokens, TimePoint now);
  void take_again(std::uint64_t num_prompt, TimePoint now);
  void keep(std::uint64_t num_prompt);
  void put_back(std::uint64_t num_prompt);
  void close(std::uint64_t num_reserved);
  ApiError refuse(const TenantMeter::Refusal& refusal) const;
  void publish() const;

  const std::string tenant_;
  const std::uint32_t number_;
  const TenantMetrics metrics_;
  mutable std::mutex mutex_;
  TenantMeter meter_;
  bool had_share_;  // of the cache, at any time
};

// Any thread.
class TenantTab {
 public:
  explicit TenantTab(std::shared_ptr<TenantAccount> account) : account_(std::move(account)) {}
  ~TenantTab();
  TenantTab(const TenantTab&) = delete;
  TenantTab& operator=(const TenantTab&) = delete;

  // As TenantMeter's. Nothing: it is let in. Behind a refusal the same one: it counts once.
  std::optional<ApiError> reserve(std::uint64_t num_prompt, std::uint64_t max_drawn,
                                  TenantAccount::TimePoint now) {
    return account_->reserve(*this, num_prompt, max_drawn, now);
  }
  // A prompt that was let in and put back, since it was to be run later, is to be run after all.
  void take_again(std::uint64_t num_prompt, TenantAccount::TimePoint now) {
    account_->take_again(num_prompt, now);
  }
  // A prompt that was let in is run now, or never: once for each.
  void keep(std::uint64_t num_prompt) { account_->keep(num_prompt); }
  void put_back(std::uint64_t num_prompt) { account_->put_back(num_prompt); }
  void use(std::uint64_t num_tokens, TenantAccount::TimePoint now) { account_->use(num_tokens, now); }

 private:
  friend class TenantAccount;

  const std::shared_ptr<TenantAccount> account_;
  // Guarded by the account's lock.
  std::uint64_t num_reserved_ = 0;
  std::optional<ApiError> refusal_;
};

}  // namespace troupe
