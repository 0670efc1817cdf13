// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/byte_budget.hpp"

#include <utility>

namespace troupe::cuda {

ByteBudget::Share::Share(Share&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), size_bytes_(other.size_bytes_) {}

ByteBudget::Share::~Share() {
  if (budget_ == nullptr) return;
  {
    const std::lock_guard lock(budget_->mutex_);
    budget_->taken_bytes_ -= size_bytes_;
  }
  budget_->was_given_back_.notify_all();
}

ByteBudget::Share ByteBudget::take(std::uint64_t size_bytes) {
  std::unique_lock lock(mutex_);
  was_given_back_.wait(lock, [&] { return has_room_for(size_bytes); });
  return share_of(size_bytes);
}

ByteBudget::Share ByteBudget::try_take(std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  return has_room_for(size_bytes) ? share_of(size_bytes) : Share(nullptr, 0);
}

bool ByteBudget::has_room_for(std::uint64_t size_bytes) const {
  return taken_bytes_ == 0 || taken_bytes_ + size_bytes <= max_bytes_;
}

ByteBudget::Share ByteBudget::share_of(std::uint64_t size_bytes) {
  taken_bytes_ += size_bytes;
  return {this, size_bytes};
}

}  // namespace troupe::cuda
