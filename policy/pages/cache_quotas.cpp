// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/cache_quotas.hpp"

namespace troupe {

void CacheQuotas::set(const CacheQuota& quota) {
  if (quota.id == kNoQuota) return;
  if (quota.id >= shares_.size()) shares_.resize(quota.id + 1);
  shares_[quota.id] = quota.share;
}

bool gives_way(const PageClaim& held, const PageClaim& newcomer, const QuotasOver& over) {
  const bool is_held_over = over.has(held.quota), is_newcomer_over = over.has(newcomer.quota);
  return is_held_over == is_newcomer_over ? held.value < newcomer.value : is_held_over;
}

QuotasOver CacheQuotas::over(const QuotaCounts& counts, std::uint32_t num_pages, QuotaId newcomer) const {
  QuotasOver over;
  for (QuotaId quota = 1; quota < shares_.size(); ++quota) {
    if (shares_[quota] <= 0) continue;
    const std::uint32_t num_used = counts.of(quota) + (quota == newcomer ? 1 : 0);
    if (num_used > shares_[quota] * num_pages) over.add(quota);
  }
  return over;
}

}  // namespace troupe
