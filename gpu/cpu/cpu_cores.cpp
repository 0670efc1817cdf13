// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_cores.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

void CorePool::wait_for_turn() {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = arrived_++;
  changed_.wait(lock, [&] { return ended_ == number; });
}

std::size_t CorePool::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return arrived_ - std::min(arrived_, ended_ + 1);
}

void CorePool::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
  }
  changed_.notify_all();
}

CpuCores::CpuCores(unsigned num_pools, const ThreadPoolOptions& options) {
  if (num_pools == 0) throw std::runtime_error("the host's cores need a pool at least");
  for (unsigned i = 0; i < num_pools; ++i) pools_.push_back(std::make_shared<CorePool>(options));
  num_threads_ = pools_.front()->threads().num_threads();
}

}  // namespace troupe
