// SPDX-License-Identifier: Apache-2.0
// The thread that copies a device's KV pages, beside the executor that computes:
// a batch's loads go layer by layer, and its program waits for each layer only
// when it comes to it (Pensieve §3.4.3.3). Loads come before the stores that
// no batch waits for. The next batch's copies begin while the present one
// computes, unless they touch its pages. Decision 0008 has the rules.
//
//   submit ──► begin(batch) ──► copies, batch by batch, each behind the batches
//                                 │        it must follow (copy_plan.hpp)
//   executor: run, waits for layers of BatchCopies ──► end_batch()
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/cpu/batch_copies.hpp"
#include "gpu/cpu/page_copier.hpp"
#include "gpu/pages/link_clock.hpp"
#include "gpu/program/batch.hpp"

namespace troupe {

class CopyThread {
 public:
  // `copier` outlives it.
  CopyThread(PageCopier& copier, const LinkSettings& link);
  ~CopyThread();
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  // Every batch, in order, by one thread. Null if it has no copies.
  std::shared_ptr<BatchCopies> begin(std::shared_ptr<const Batch> batch);

  // By the executor, in the same order: the batch and its copies have ended and
  // its pages may be touched. Lets go of the batch.
  void end_batch();

  // Copies that have not ended fail, soon, and waiting threads are woken.
  // Nothing may be begun after.
  void stop();

 private:
  using TimePoint = LinkClock::TimePoint;

  void work();
  std::shared_ptr<BatchCopies> wait_for_copies();
  std::uint64_t last_to_follow(const std::vector<PageCopy>& copies) const;
  std::vector<std::uint64_t> make(BatchCopies& copies);
  void copy_by_layer(const CopySegment& segment, TimePoint ready, BatchCopies* told,
                     std::vector<std::uint64_t>& failed_loads);
  void copy_afterwards(const CopySegment& segment, TimePoint ready);
  void wait_until(TimePoint time);

  PageCopier& copier_;
  LinkClock load_link_;  // copy thread only, as the next two
  LinkClock store_link_;
  bool has_followed_ = false;  // the present copies had to wait for a batch

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Batch>> in_flight_;  // begun, not ended
  std::deque<std::shared_ptr<BatchCopies>> queue_;      // not yet under way
  std::uint64_t num_ended_ = 0;
  std::uint64_t awaited_end_ = 0;  // the copy thread sleeps until so many have ended
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troupe
