// SPDX-License-Identifier: Apache-2.0
// The cores of the host, shared by the devices of several models: one pool of compute
// threads a worker, on which one batch runs at a time. Two models at one worker then
// share its cores instead of fighting for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"

namespace troupe {

// A pool of threads and the queue of batches that want it.
class CorePool {
 public:
  explicit CorePool(ThreadPoolOptions options) : threads_(std::move(options)) {}

  // While it is there, the pool is its holder's, and the thread that made it is the pool's caller.
  class Turn {
   public:
    explicit Turn(CorePool& pool) : pool_(pool) {
      pool_.wait_for_turn();
      pool_.threads_.adopt_caller();
    }
    ~Turn() {
      pool_.threads_.release_caller();
      pool_.end_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    CorePool& pool_;
  };

  ThreadPool& threads() { return threads_; }
  std::size_t num_waiting() const;  // for a turn

 private:
  // In order of arrival, for every caller.
  void wait_for_turn();
  void end_turn();

  ThreadPool threads_;
  mutable std::mutex mutex_;  // guards the numbers
  std::condition_variable changed_;
  std::uint64_t arrived_ = 0;  // turns asked for
  std::uint64_t ended_ = 0;
};

// Any thread may call it.
class CpuCores {
 public:
  // `options` are those of each pool. A worker has one pool, so num_pools is the number of workers.
  // Throws std::runtime_error if they can't be pinned.
  CpuCores(unsigned num_pools, const ThreadPoolOptions& options);

  unsigned num_threads() const { return num_threads_; }  // of a pool
  std::size_t num_pools() const { return pools_.size(); }
  const std::shared_ptr<CorePool>& pool(std::size_t index) const { return pools_.at(index); }

 private:
  std::vector<std::shared_ptr<CorePool>> pools_;
  unsigned num_threads_ = 0;
};

}  // namespace troupe
