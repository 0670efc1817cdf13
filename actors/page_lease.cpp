// SPDX-License-Identifier: Apache-2.0
#include "actors/page_lease.hpp"

#include <utility>

namespace troupe {

LeaseReturnBin::LeaseReturnBin(std::function<void()> on_first_return)
    : on_first_return_(std::move(on_first_return)) {}

void LeaseReturnBin::put(std::uint64_t lease_id) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = returned_.empty();
    returned_.push_back(lease_id);
  }
  if (is_first) on_first_return_();
}

std::vector<std::uint64_t> LeaseReturnBin::take_all() {
  const std::lock_guard lock(mutex_);
  return std::exchange(returned_, {});
}

PageLease::PageLease(std::uint64_t id, std::shared_ptr<LeaseReturnBin> bin) : id_(id), bin_(std::move(bin)) {}

PageLease::~PageLease() { bin_->put(id_); }

}  // namespace troupe
