// SPDX-License-Identifier: Apache-2.0
#include "actors/request/tenant_account.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>

namespace troupe {
namespace {

// Rounded up.
std::string in_seconds(std::chrono::nanoseconds wait) {
  char text[32];
  const double tenths = std::ceil(std::chrono::duration<double>(wait).count() * 10);
  std::snprintf(text, sizeof text, "%.1f s", tenths / 10);
  return text;
}

}  // namespace

TenantAccount::TenantAccount(std::string tenant, std::uint32_t number, const TenantLimits& limits,
                             TenantMetrics metrics, TimePoint now)
    : tenant_(std::move(tenant)),
      number_(number),
      metrics_(metrics),
      meter_(limits, now),
      had_share_(limits.cache_share > 0) {}

void TenantAccount::set_limits(const TenantLimits& limits, TimePoint now) {
  const std::lock_guard lock(mutex_);
  meter_.set_limits(limits, now);
  had_share_ = had_share_ || limits.cache_share > 0;
}

std::variant<std::shared_ptr<TenantTab>, ApiError> TenantAccount::open(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (const auto refusal = meter_.begin(now)) return refuse(*refusal);
  publish();
  return std::make_shared<TenantTab>(shared_from_this());
}

TenantAccount::Standing TenantAccount::look(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return {.limits = meter_.limits(), .reading = meter_.read(now)};
}

CacheQuota TenantAccount::cache_quota() const {
  const std::lock_guard lock(mutex_);
  const double share = meter_.limits().cache_share;
  // Tenants that never had a part have one number together: an eviction looks at each number's pages. Pages
  // of one that had a part are known by its number, and stay bound by that part until the number has none.
  return had_share_ ? CacheQuota{.id = number_, .share = share} : CacheQuota{};
}

std::optional<ApiError> TenantAccount::reserve(TenantTab& tab, std::uint64_t num_prompt,
                                               std::uint64_t max_drawn, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (tab.refusal_) return tab.refusal_;
  if (const auto refusal = meter_.reserve(num_prompt, max_drawn, tab.num_reserved_, now)) {
    tab.refusal_ = refuse(*refusal);
    return tab.refusal_;
  }
  tab.num_reserved_ += num_prompt + max_drawn;
  publish();
  return std::nullopt;
}

void TenantAccount::take_again(std::uint64_t num_prompt, TimePoint now) {
  const std::lock_guard lock(mutex_);
  meter_.use(num_prompt, now);
}

void TenantAccount::keep(std::uint64_t num_prompt) { metrics_.tokens.add(static_cast<double>(num_prompt)); }

void TenantAccount::put_back(std::uint64_t num_prompt) {
  const std::lock_guard lock(mutex_);
  meter_.put_back(num_prompt);
}

void TenantAccount::use(std::uint64_t num_tokens, TimePoint now) {
  const std::lock_guard lock(mutex_);
  meter_.use(num_tokens, now);
  metrics_.tokens.add(static_cast<double>(num_tokens));
}

void TenantAccount::close(std::uint64_t num_reserved) {
  const std::lock_guard lock(mutex_);
  meter_.give_back(num_reserved);
  meter_.end();
  publish();
}

ApiError TenantAccount::refuse(const TenantMeter::Refusal& refusal) const {
  const TenantLimits& limits = meter_.limits();
  const std::string whose = "The tenant " + tenant_ + " may have ";
  switch (refusal.limit) {
    case TenantMeter::Limit::kRequests:
      metrics_.refused_requests.add();
      return {.kind = ApiErrorKind::kRateLimited,
              .message = whose + std::to_string(limits.max_requests) +
                         " requests under way, and has them; try again later."};
    case TenantMeter::Limit::kTokens:
      metrics_.refused_tokens.add();
      return {.kind = ApiErrorKind::kRateLimited,
              .message = whose + std::to_string(limits.max_tokens) +
                         " tokens in flight, and this request would be beyond that; try again later, or with "
                         "a smaller max_tokens."};
    case TenantMeter::Limit::kTokensOfOne:
      metrics_.refused_tokens.add();
      return {.kind = ApiErrorKind::kInvalidRequest,
              .message = whose + std::to_string(limits.max_tokens) +
                         " tokens in flight; the prompts and the most tokens of the answers to this request "
                         "alone are more. Fewer prompts or a smaller max_tokens may do.",
              .field = "max_tokens"};
    case TenantMeter::Limit::kTokensPerMinute: break;
  }
  metrics_.refused_rate.add();
  return {.kind = ApiErrorKind::kRateLimited,
          .message = whose + std::to_string(limits.tokens_per_minute) +
                     " tokens a minute, and has used them up; try again in " + in_seconds(refusal.wait) + ".",
          .retry_after = refusal.wait};
}

void TenantAccount::publish() const {
  metrics_.requests.set(meter_.num_requests());
  metrics_.tokens_in_flight.set(static_cast<double>(meter_.num_tokens()));
}

TenantTab::~TenantTab() { account_->close(num_reserved_); }

}  // namespace troupe
