// SPDX-License-Identifier: Apache-2.0
// Owns the knowledge of where KV pages are: which are free, which belong to
// whom, which can be shared. One tier, the device's, for now. Gives pages out
// as leases; takes back what destroyed leases left in the return bin.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "policy/page_pool.hpp"

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

  // For tests: what is returned is taken first.
  bool is_consistent();
  PageCounts counts();

 private:
  void take_returned();
  void publish();

  Self self_ = nullptr;
  Environment environment_;
  CacheTierOptions options_;
  std::unique_ptr<CensusEntry> census_;
  Epoch epoch_ = 0;
  std::uint64_t published_evictions_ = 0;  // of this pool
  std::uint32_t page_size_ = 1;
  std::optional<PagePool> pool_;
  // One an epoch: leases of a device that is gone return to nowhere.
  std::shared_ptr<LeaseReturnBin> bin_;
  std::uint64_t last_lease_ = 0;
};

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment,
                                              CacheTierOptions options);

}  // namespace troupe
