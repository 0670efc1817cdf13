// SPDX-License-Identifier: Apache-2.0
// Does the transfers between the host's KV pages and those on disk, on its own
// time: a thread over files (disk_thread.hpp) or a simulation (tests). What goes
// where is PageCache's decision.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "policy/page_key.hpp"
#include "policy/page_transfer.hpp"

namespace troupe {

// All methods are called by the cache tier alone, except that the listener is
// called by a thread of the disk tier.
class DiskTier {
 public:
  struct Done {
    DiskTransfer transfer;
    TransferOutcome outcome = TransferOutcome::kDone;
  };

  virtual ~DiskTier() = default;

  virtual std::uint32_t num_pages() const = 0;
  // Tenants that share pages across processes are told by it.
  virtual PageSecret secret() const = 0;
  virtual std::uint64_t first_generation() const = 0;
  // What earlier processes have left. Empties the list.
  virtual std::vector<StoredPage> take_stored() = 0;

  // Queues them and returns at once. Reads overtake writes; writes and erasures
  // keep their order.
  virtual void submit(std::vector<DiskTransfer> transfers) = 0;
  // What is done since the last call; erasures are not among them.
  virtual std::vector<Done> take_done() = 0;
  // Called after something was done, never blocking.
  virtual void set_listener(std::function<void()> listener) = 0;
};

}  // namespace troupe
