// SPDX-License-Identifier: Apache-2.0
// Does the transfers between the host's KV pages and those on disk, on its own
// time: a thread over files (disk_thread.hpp) or a simulation (tests).
// PageCache decides which page goes where.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/event.hpp"
#include "policy/pages/page_key.hpp"
#include "policy/pages/page_transfer.hpp"

namespace troupe {

// Threads: the scheduler asks what is known at the start, before the first transfer; the
// cache tier alone calls everything else; a thread of the disk tier calls the listener.
class DiskTier {
 public:
  using Done = FinishedTransfer;

  virtual ~DiskTier() = default;

  virtual std::uint32_t num_pages() const = 0;
  // Tenants that share pages across processes are told by it.
  virtual PageSecret secret() const = 0;
  virtual std::uint64_t first_generation() const = 0;
  // Pages that earlier processes have left. Empties the list.
  virtual std::vector<StoredPage> take_stored() = 0;

  // Pages whose space the file system lacks now.
  virtual std::uint32_t num_pages_lacking() const = 0;

  // Queues them and returns at once. Reads overtake the others, which keep their
  // order.
  virtual void submit(std::vector<DiskTransfer> transfers) = 0;
  // Transfers done since the last call, releases too; erasures are not among them.
  virtual std::vector<Done> take_done() = 0;
  // Called after something was done, never blocking.
  virtual void set_listener(std::function<void()> listener) = 0;
};

}  // namespace troupe
