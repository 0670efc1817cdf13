// SPDX-License-Identifier: Apache-2.0
// In which order the copies of a batch are made, so that its layers can begin as
// they arrive (Pensieve §3.4.3.3) and the outcome is still that of copying whole
// pages, one after the other, before the batch. Plain functions.
//
// Layer by layer, and within a layer in the order of the list, is as good as
// page by page, but for one thing: a host page counts only when it is complete.
// So where a copy uses a host page that an earlier one stores, the list is cut;
// everything in front of a cut is done before what is behind it begins.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe {

struct CopySegment {
  // Loads, copies within the device, and stores of pages that this batch writes
  // over: a layer's KV is there, and may be written, when all of these have copied
  // that layer.
  std::vector<PageCopy> by_layer;
  // The other stores: nothing in the batch waits for them, so they come last.
  std::vector<PageCopy> afterwards;
};

// Never empty lists, in order. Slices that are wrong in themselves (their batch
// will fail) and pages from num_pages on are passed over.
std::vector<CopySegment> plan_copies(const Batch& batch, std::uint32_t num_pages);

// True if `copies` may begin only when `earlier` is done: they write to a page that
// its slices read or write, or read one that they write. (Its own copies are no
// question: copies are made in order.)
bool must_follow(const std::vector<PageCopy>& copies, const Batch& earlier, std::uint32_t num_pages);

}  // namespace troupe
