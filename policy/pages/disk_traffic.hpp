// SPDX-License-Identifier: Apache-2.0
// Transfers between host and disk: pages are written while there is time, fetched before a sequence needs
// them, and listed at the start as a page file still had them. Transfers are decided and queued here and take
// as long as they take: a page counts as read, or written, when transfer_done() says so, and its host page is
// not reused until then.
//
// On disk a page is written behind the one in front of it, so that a page file
// alone says what its pages are: they are written from the front of a
// conversation and go from its end. Where a write fails and those behind it do not,
// these are found as long as the process lives, and by the next one if the page in
// front was written again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/pages/page_places.hpp"
#include "policy/pages/page_transfer.hpp"

namespace troupe {

class DiskTraffic {
 public:
  using TimePoint = PagePlaces::TimePoint;

  explicit DiskTraffic(PagePlaces& places) : places_(places), disk_(places.tiers().disk()) {}

  // Queues transfers from the disk of what these tokens need and neither the
  // worker's device nor the host has, the end first where the host is short of room. Returns the generations
  // to wait for: a reservation made when their transfers are done finds them on
  // the host, unless it comes too late.
  std::vector<std::uint64_t> fetch(WorkerIndex worker, TenantId tenant, std::span<const std::int32_t> tokens,
                                   TimePoint now, QuotaId quota = kNoQuota);

  // Queues copies to the host of full pages that are on devices alone, those of running
  // sequences too and whether this device is short or not, into space whose contents are
  // nowhere else needed: on their way to the disk, from the front of a conversation.
  void copy_behind(WorkerIndex worker, std::uint32_t max_copies, TimePoint now);
  // Queues transfers to the disk of what is on the host, at most so many, each page
  // behind the one in front of it: a disk that keeps their order never has one alone.
  void write_behind(std::uint32_t max_writes, TimePoint now);

  // Transfers queued since the last call, to be done in any order but for erasures.
  std::vector<DiskTransfer> take_transfers() { return disk_.take_transfers(); }
  // Each write and each read ends with this, once. Unknown ones are ignored.
  void transfer_done(const DiskTransfer& transfer, TransferOutcome outcome, TimePoint now);

  // Takes the pages of a page file, when nothing is on disk yet. Pages that can't be
  // what they say (no parent, unknown page, twice the same) are erased.
  void restore(std::vector<StoredPage> stored, TimePoint now);
  // Drops disk pages of the least value, at most so many, and gives their space
  // back. The disk tier grows no more than it has, until may_grow().
  void give_up_pages(std::uint32_t max_pages, TimePoint now);
  void may_grow() { disk_.grow_again(); }

 private:
  DiskTransfer begin_read(NodeId node, std::uint32_t host_page);
  std::vector<NodeId> chain_to_write(NodeId node) const;
  std::vector<NodeId> chain_to_copy(WorkerIndex worker, NodeId node) const;
  bool has_room_for(NodeId node, TimePoint now) const;
  double value_of(NodeId node, TimePoint now) const;
  std::optional<NodeId> victim_for(NodeId node, TimePoint now) const;
  std::optional<std::uint32_t> take_page(NodeId node, TimePoint now);
  bool write(NodeId node, TimePoint now);
  bool write_with_front(NodeId node, std::uint32_t& max_writes, TimePoint now);
  PageIdentity identity_of(NodeId node) const;
  NodeId adopt_stored(const StoredPage& page, const std::unordered_map<std::uint64_t, NodeId>& by_generation);

  PagePlaces& places_;
  DiskBook& disk_;
};

}  // namespace troupe
