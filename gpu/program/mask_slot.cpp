// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/mask_slot.hpp"

#include <utility>

namespace troupe {

void MaskSlot::set(std::shared_ptr<const TokenMask> mask) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_settled_, true)) return;
    mask_ = std::move(mask);
  }
  is_settled_.notify_all();
}

void MaskSlot::close() { set(nullptr); }

std::shared_ptr<const TokenMask> MaskSlot::wait(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  is_settled_.wait_until(lock, deadline, [this] { return has_settled_; });
  return mask_;
}

AwaitedMasks await_masks(const Batch& batch, std::chrono::nanoseconds longest,
                         const std::function<bool(std::size_t slice)>& draws) {
  AwaitedMasks awaited;
  if (batch.awaited_masks.empty()) return awaited;
  awaited.masks.resize(batch.slices.size());
  awaited.wait_nanoseconds.resize(batch.slices.size());
  const auto begin = std::chrono::steady_clock::now(), deadline = begin + longest;
  auto seen = begin;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    if (!batch.awaited_masks[i] || !draws(i)) continue;
    awaited.masks[i] = batch.awaited_masks[i]->wait(deadline);
    const auto now = std::chrono::steady_clock::now();
    // One that has none was missing all the time, whichever was waited for meanwhile.
    awaited.wait_nanoseconds[i] = std::chrono::nanoseconds(now - (awaited.masks[i] ? seen : begin)).count();
    seen = now;
  }
  awaited.asleep = seen - begin;
  return awaited;
}

}  // namespace troupe
