// SPDX-License-Identifier: Apache-2.0
// Parts of each tier's pages that tenants may keep while others need them. A quota is a part
// by its number; tenants without one share number 0, which has no bound. Free pages are
// anybody's. When a page has to go, it is one of a quota that has more than its part, if one of
// those may go, and only else the one of least value: so a tenant that floods the cache pushes out its
// own pages, and a tenant within its part loses none to another beyond its own.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

using QuotaId = std::uint32_t;
inline constexpr QuotaId kNoQuota = 0;

struct CacheQuota {
  QuotaId id = kNoQuota;
  double share = 0;  // of a tier's pages, in (0, 1]; 0: no bound
};

// Pages in use in one tier, by quota.
class QuotaCounts {
 public:
  void add(QuotaId quota) {
    if (quota >= counts_.size()) counts_.resize(quota + 1);
    counts_[quota] += 1;
  }
  void remove(QuotaId quota) { counts_[quota] -= 1; }
  std::uint32_t of(QuotaId quota) const { return quota < counts_.size() ? counts_[quota] : 0; }

 private:
  std::vector<std::uint32_t> counts_;
};

// Quotas whose pages go first, by number; empty: none.
class QuotasOver {
 public:
  bool is_empty() const { return is_over_.empty(); }
  bool has(QuotaId quota) const { return quota < is_over_.size() && is_over_[quota]; }
  void add(QuotaId quota) {
    if (quota >= is_over_.size()) is_over_.resize(quota + 1);
    is_over_[quota] = true;
  }

 private:
  std::vector<bool> is_over_;
};

// A page of a tier that is full, or one that is to be put there.
struct PageClaim {
  QuotaId quota = kNoQuota;
  double value = 0;  // as of policy/pages/eviction_queue.hpp
};

// The page `held` goes for the newcomer: it is worth less, or beyond its quota where the newcomer is
// within its own.
bool gives_way(const PageClaim& held, const PageClaim& newcomer, const QuotasOver& over);

class CacheQuotas {
 public:
  // From now on the quota has this part.
  void set(const CacheQuota& quota);
  // Quotas that have more than their part of a tier of num_pages, counting one page more of
  // `newcomer`, for which there has to be room.
  QuotasOver over(const QuotaCounts& counts, std::uint32_t num_pages, QuotaId newcomer) const;

 private:
  std::vector<double> shares_;  // by number; 0: no bound
};

}  // namespace troupe
