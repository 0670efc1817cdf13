// SPDX-License-Identifier: Apache-2.0
// Runs kernels and remembers what the newest of them has stored, so that the next one, if it
// overlaps that one, begins without it. Allocations of over 1 MiB are left out: all that kernels
// hand to each other in tests is smaller. By operations only, which run one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tests/simt/interpreter/hidden_stores.hpp"
#include "tests/simt/runtime/memory_map.hpp"

namespace troupe::simt {

class StoreHistory {
 public:
  explicit StoreHistory(const MemoryMap& memory) : memory_(memory) {}

  struct Kernel {
    const void* stream = nullptr;             // that it was given to
    bool overlaps_previous = false;           // the kernel before it in this stream
    std::optional<int> shared_carveout = {};  // none: not known
    // Gets what it must not see yet, or null. True: it has let the next one start early.
    std::function<bool(HiddenStores*)> run;
  };
  void run(const Kernel& kernel);
  // Something else than a kernel runs now.
  void forget() { has_kernel_ = false; }

  // Kernels that began while the one before them ran.
  std::uint64_t num_overlaps() const { return num_overlaps_; }
  // Kernels of another carve-out of shared memory than the one before them in their stream.
  std::uint64_t num_carveout_changes() const { return num_carveout_changes_; }

 private:
  struct Snapshot {
    MemoryMap::Allocation allocation;
    std::vector<std::byte> bytes;
  };
  HiddenStores changes() const;
  void take_snapshots();

  const MemoryMap& memory_;
  std::vector<Snapshot> before_;  // the newest kernel
  bool has_kernel_ = false;       // the newest operation was one
  Kernel newest_;                 // without its function
  bool lets_next_start_ = false;
  std::atomic<std::uint64_t> num_overlaps_ = 0, num_carveout_changes_ = 0;
};

}  // namespace troupe::simt
