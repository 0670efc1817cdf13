// SPDX-License-Identifier: Apache-2.0
// The right to KV pages. Whoever holds a lease (a sequence, a batch in flight,
// a message on its way) keeps its pages from being given to others; when the
// last holder lets go, wherever that happens, they go back to the cache tier
// through a return bin.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

// Where the pages of destroyed leases wait until the cache tier looks. Any thread.
class LeaseReturnBin {
 public:
  // on_first_return is called when the bin stops being empty, by whoever let go
  // of the lease; must not throw.
  explicit LeaseReturnBin(std::function<void()> on_first_return);

  void put(std::uint64_t lease_id);
  std::vector<std::uint64_t> take_all();

 private:
  std::function<void()> on_first_return_;
  std::mutex mutex_;
  std::vector<std::uint64_t> returned_;
};

class PageLease {
 public:
  PageLease(std::uint64_t id, std::shared_ptr<LeaseReturnBin> bin);
  ~PageLease();
  PageLease(const PageLease&) = delete;
  PageLease& operator=(const PageLease&) = delete;

  std::uint64_t id() const { return id_; }

 private:
  std::uint64_t id_;
  std::shared_ptr<LeaseReturnBin> bin_;
};

using LeasePtr = std::shared_ptr<const PageLease>;

}  // namespace troupe
