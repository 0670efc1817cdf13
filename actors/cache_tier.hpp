// SPDX-License-Identifier: Apache-2.0
// Owns the knowledge of where KV pages are, on the device and on the host:
// which are free, which belong to whom, which can be shared, what goes when
// there is no room. Gives pages out as leases; takes back what destroyed leases
// left in the return bin. Says what is to be moved between the tiers; the
// scheduler puts it in front of the next batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/page_cache.hpp"

namespace troupe {

struct CacheTierOptions {
  PageSecret secret;
  unsigned hash_bits = 128;
};

class CacheTierState {
 public:
  using Self = CacheTierActor::stateful_pointer<CacheTierState>;
  static inline const char* name = "cache_tier";

  void initialize(Self self, Environment environment, CacheTierOptions options);

  void reset(const ResetPages& message);
  PagesReserved reserve(const ReservePages& message);
  PagesExtended extend(const ExtendPages& message);
  void commit(const CommitPages& message);
  void collect();
  void void_contents(const VoidContents& message);
  // Copies for the host while the device is short of pages to give away.
  std::vector<PageMove> copy_ahead();

  // For tests: what is returned is taken first.
  bool is_consistent();
  PageCounts counts();

 private:
  using TimePoint = PageCache::TimePoint;

  void take_returned();
  std::vector<PageMove> take_moves();
  TenantId tenant_of(const std::string& cache_salt) const;
  TimePoint now() const;
  void publish();

  Self self_ = nullptr;
  Environment environment_;
  CacheTierOptions options_;
  std::unique_ptr<CensusEntry> census_;
  Epoch epoch_ = 0;
  PageCacheStatistics published_;  // as far as the metrics have it
  std::uint32_t page_size_ = 1;
  std::uint32_t num_host_pages_ = 0;
  std::optional<PageCache> pages_;
  // One an epoch: leases of a device that is gone return to nowhere.
  std::shared_ptr<LeaseReturnBin> bin_;
  std::uint64_t last_lease_ = 0;
};

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment,
                                              CacheTierOptions options);

}  // namespace troupe
