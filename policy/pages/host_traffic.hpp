// SPDX-License-Identifier: Apache-2.0
// Copies between devices and the host, and the pages that give way for them. A device page that no lease
// holds goes when its space is needed, by value: to the host if it may, else nowhere.
//
// Copies are only *decided* here, and queued in an order in which a device that works in order may do
// them; every batch of that worker formed after the call may rely on them: to it, a page counts as
// loaded, or stored, when its copy is queued. Another worker's device is not ordered with it: until
// copies_done() says so, no other worker loads what is being stored, or stores where something is being
// copied. The remains of a copy that failed are told apart by generation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/pages/page_places.hpp"

namespace troupe {

class HostTraffic {
 public:
  using TimePoint = PagePlaces::TimePoint;

  explicit HostTraffic(PagePlaces& places) : places_(places), host_(places.tiers().host()) {}

  // For a lease of this quota; one must be available.
  std::uint32_t take_device_page(WorkerIndex worker, QuotaId quota, TimePoint now);
  // Queues the copy of the node's host page.
  void load(WorkerIndex worker, NodeId node, std::uint32_t device_page);
  void store(WorkerIndex worker, NodeId node, std::uint32_t host_page);
  // Host pages: one that no copy under way touches, for what is in order with no device;
  std::optional<std::uint32_t> take_idle_page(QuotaId quota, TimePoint now);
  // a free one, or that of a page that is on disk too, for a store.
  std::optional<std::uint32_t> take_backed_page(WorkerIndex worker, NodeId node, TimePoint now);

  // Queues copies to the host, at most max_copies, while the worker's device is
  // short of pages that can be given away at once.
  void copy_ahead(WorkerIndex worker, std::uint32_t max_copies, TimePoint now);
  // Copies queued since the last call, to be done in this order by the worker's device.
  std::vector<PageCopy> take_copies(WorkerIndex worker) {
    return places_.tiers().device(worker).take_copies();
  }
  // The worker's device has done these: the host's pages may be used by others.
  void copies_done(WorkerIndex worker, std::span<const PageCopy> copies);

 private:
  void reclaim(WorkerIndex worker, NodeId node, TimePoint now);
  std::optional<std::uint32_t> take_page(WorkerIndex worker, NodeId node, double value, TimePoint now);
  void evict(NodeId node);
  void queue_copy(WorkerIndex worker, const PageCopy& copy);

  PagePlaces& places_;
  HostBook& host_;
};

}  // namespace troupe
