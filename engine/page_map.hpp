// SPDX-License-Identifier: Apache-2.0
// The map of KV pages: which are free, which belong to a sequence, which can be
// shared, what is evicted when there is no room; and the transfers that follow.
// Gives pages out as leases. PageCache decides; this class keeps what is under way.
// Plain calls of one owner, no thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/core_options.hpp"
#include "engine/event.hpp"
#include "engine/sequence_output.hpp"
#include "policy/pages/page_cache.hpp"

namespace troupe {

class PageMap {
 public:
  using TimePoint = PageCache::TimePoint;

  struct Lookup {
    std::span<const std::int32_t> tokens;  // their KV may come from shared pages
    std::string_view cache_salt;
    CacheQuota quota = {};  // of the salt's tenant
  };
  struct Reservation {
    LeaseId lease = 0;
    std::vector<PageId> pages;
    // The hit: the KV of the first tokens, but for the holes.
    std::uint32_t known_tokens = 0;
    std::vector<TokenRange> holes;
    std::uint32_t tokens_from_device = 0, tokens_from_host = 0;
  };
  // A sequence whose pages have come from the disk to the host.
  struct Fetched {
    SequenceId sequence = 0;
    std::uint64_t run = 0;
    std::uint32_t num_tokens = 0;
  };

  PageMap(const ServingSettings& serving, PageMapOptions options);

  // A worker's new device, all of whose pages are free. Host pages outlive devices;
  // if they are the ones known, so does what is known of them. All workers have
  // pages of one size and the same host pages.
  void add_worker(WorkerId worker, const DeviceDescription& device, TimePoint now);
  void lose_worker(WorkerId worker);  // its leases are void

  // nullopt: not enough pages now.
  std::optional<Reservation> reserve(WorkerId worker, const Lookup& lookup, PageDemand demand, TimePoint now);
  // Begins to read from the disk what only the disk has of these tokens; false:
  // nothing that is worth it. A Fetched with the same run comes of it.
  bool fetch(WorkerId worker, SequenceId sequence, std::uint64_t run, const Lookup& lookup, TimePoint now);
  // Tokens of the lookup that each worker would find.
  PageAffinity affinity(const Lookup& lookup) const;
  // Empty: refused.
  std::vector<PageId> extend(WorkerId worker, LeaseId lease, PageDemand demand, TimePoint now);
  // The KV of whole pages from first_page on is computed, of these tokens; or that of
  // the last page, which is not full, of a sequence that has ended.
  void commit(LeaseId lease, std::uint32_t first_page, std::span<const std::int32_t> tokens, TimePoint now);
  // No device writes to its pages any more.
  void release(LeaseId lease, TimePoint now);

  // A batch with sequences took so long on the device, its copies included.
  void note_iteration(WorkerId worker, std::chrono::nanoseconds iteration, std::span<const PageCopy> copies);
  // After a batch's note_iteration() and commits: copies to the host ahead of need.
  void copy_ahead(WorkerId worker, TimePoint now);
  // Whatever may go to the disk while there is time: copies to the host, the next
  // when these are done, and writes from there.
  void move_on(TimePoint now);

  // Copies decided since the last call, for the worker's next batch.
  std::vector<PageCopy> take_copies(WorkerId worker);
  // There are some that are worth a batch of their own when nothing runs there.
  bool has_copies_that_go_alone(WorkerId worker) const;
  void copies_done(WorkerId worker, std::span<const PageCopy> copies);
  void void_contents(std::span<const std::uint64_t> generations);

  std::vector<DiskTransfer> take_transfers();
  std::vector<Fetched> transfers_done(std::span<const FinishedTransfer> transfers, TimePoint now);
  void forget(const Lookup& lookup, std::size_t num_kept);
  // Releases disk pages, whose space others need; the disk tier grows no more until
  // disk_may_grow().
  void give_up_disk_pages(std::uint32_t num_pages, TimePoint now);
  void disk_may_grow();

  // Nothing is on its way to the disk, nor to the host for its sake.
  bool is_settled() const;
  bool is_made() const { return pages_.has_value(); }
  std::uint32_t page_size() const { return page_size_; }
  PageCounts counts() const { return pages_ ? pages_->counts() : PageCounts{}; }
  PageCounts counts(WorkerId worker) const;
  const PageCacheStatistics* statistics() const { return pages_ ? &pages_->statistics() : nullptr; }
  bool is_consistent() const;

 private:
  friend class Fingerprint;
  struct Worker {
    bool is_up = false;
    std::vector<PageCopy> copies;  // for its next batch
    bool may_copies_go_alone = false;
    std::uint64_t num_copies_under_way = 0;  // decided and not done
    // Their program_time(), where the link was measured: the next batch is predicted to
    // take the shorter of both, since a long prefill says nothing of the decodes after it.
    std::chrono::nanoseconds last_iteration{0}, iteration_before{0};
  };
  // A sequence that waits for what the disk has of it.
  struct Fetch {
    SequenceId sequence = 0;
    std::uint64_t run = 0;
    std::set<std::uint64_t> awaited;  // generations
    std::uint32_t num_pages = 0;      // that have come
  };

  void make_pages(const DeviceDescription& device, TimePoint now);
  std::vector<Fetched> settle_fetches(const DiskTransfer& transfer, bool is_done);
  void queue_copies(WorkerId worker);
  void expire(TimePoint now);
  TenantId tenant_of(std::string_view cache_salt) const;

  ServingSettings serving_;
  PageMapOptions options_;
  bool has_disk_ = false;
  std::uint32_t page_size_ = 1;
  std::uint32_t num_host_pages_ = 0;
  std::optional<PageCache> pages_;
  std::vector<Worker> workers_;  // by WorkerId
  LeaseId last_lease_ = 0;
  std::uint32_t num_writes_under_way_ = 0;
  std::vector<Fetch> fetches_;
  TimePoint no_writes_until_;  // after one that failed
  TimePoint last_expiry_;
};

}  // namespace troupe
