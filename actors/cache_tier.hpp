// SPDX-License-Identifier: Apache-2.0
// Owns the knowledge of where KV pages are, on the device, on the host and on
// disk: which are free, which belong to whom, which can be shared, what goes
// when there is no room. Gives pages out as leases; takes back what destroyed
// leases left in the return bin. Says what is to be moved between device and
// host; the scheduler puts it in front of the next batch. Has the disk tier
// fetch what a request needs, and write, in the background, what conversations
// leave behind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/disk_tier.hpp"
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

  ~CacheTierState();

  void initialize(Self self, Environment environment, CacheTierOptions options);

  void reset(const ResetPages& message);
  PagesReserved reserve(const ReservePages& message);
  PagesExtended extend(const ExtendPages& message);
  void commit(const CommitPages& message);
  void collect();
  void void_contents(const VoidContents& message);
  void take_moves_done(const MovesDone& message);
  void answer_disk();
  void flush(const FlushPages& message);
  void forget(const ForgetPages& message);

  // For tests: what is returned is taken first.
  bool is_consistent();
  PageCounts counts();

 private:
  using TimePoint = PageCache::TimePoint;

  // A sequence that waits for what the disk has of it.
  struct Fetch {
    SequenceId sequence = 0;
    std::uint64_t run = 0;
    std::set<std::uint64_t> awaited;  // generations
    std::uint32_t num_pages = 0;      // that have come
  };

  void make_pages(const ResetPages& message);
  bool begin_fetch(const ReservePages& message);
  void settle_fetches(const DiskTransfer& transfer, bool is_done);
  void move_on();
  void send_moves(bool may_go_alone);
  void write_behind();
  void submit_transfers();
  void expire();
  void take_returned();
  std::vector<PageMove> take_moves();
  template <class Message>
  void send_scheduler(Message message);
  TenantId tenant_of(const std::string& cache_salt) const;
  TimePoint now() const;
  void publish();

  Self self_ = nullptr;
  Environment environment_;
  CacheTierOptions options_;
  PageSecret tenant_secret_;  // the disk tier's, if there is one
  std::unique_ptr<CensusEntry> census_;
  Epoch epoch_ = 0;
  PageCacheStatistics published_;  // as far as the metrics have it
  std::uint32_t page_size_ = 1;
  std::uint32_t num_host_pages_ = 0;
  std::optional<PageCache> pages_;
  // One an epoch: leases of a device that is gone return to nowhere.
  std::shared_ptr<LeaseReturnBin> bin_;
  std::uint64_t last_lease_ = 0;

  std::shared_ptr<DiskTier> disk_;  // null: none
  caf::actor_addr scheduler_;       // weak: it holds this actor
  std::vector<Fetch> fetches_;
  std::uint64_t num_moves_under_way_ = 0;  // given to the scheduler
  std::uint32_t num_writes_under_way_ = 0;
  std::uint32_t num_reads_under_way_ = 0;
  TimePoint no_writes_until_;  // after one that failed
  TimePoint last_expiry_;
  std::vector<FlushPages> flushes_;
};

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment,
                                              CacheTierOptions options);

}  // namespace troupe
