// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/store_history.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::simt {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

void StoreHistory::run(const Kernel& kernel) {
  const bool follows = has_kernel_ && newest_.stream == kernel.stream;
  HiddenStores previous;
  const bool overlaps = kernel.overlaps_previous && follows;
  if (overlaps) previous = changes();
  if (overlaps && lets_next_start_) ++num_overlaps_;
  if (follows && kernel.shared_carveout && newest_.shared_carveout &&
      kernel.shared_carveout != newest_.shared_carveout) {
    ++num_carveout_changes_;
  }
  take_snapshots();
  has_kernel_ = false;  // should it throw
  lets_next_start_ = kernel.run(overlaps ? &previous : nullptr);
  newest_ = {.stream = kernel.stream, .shared_carveout = kernel.shared_carveout, .run = {}};
  has_kernel_ = true;
}

// Of allocations that are still there.
HiddenStores StoreHistory::changes() const {
  HiddenStores changes;
  const auto now = memory_.device_allocations(kMostBytes);
  for (const Snapshot& snapshot : before_) {
    const bool is_there = std::any_of(now.begin(), now.end(), [&](const MemoryMap::Allocation& allocation) {
      return allocation.number == snapshot.allocation.number;
    });
    if (is_there) changes.add_changes(snapshot.allocation.memory, snapshot.bytes);
  }
  return changes;
}

void StoreHistory::take_snapshots() {
  const auto now = memory_.device_allocations(kMostBytes);
  before_.resize(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    before_[i].allocation = now[i];
    // memcpy: to move bytes takes the address sanitizer several times as long.
    before_[i].bytes.resize(now[i].size_bytes);
    std::memcpy(before_[i].bytes.data(), now[i].memory, now[i].size_bytes);
  }
}

}  // namespace troupe::simt
