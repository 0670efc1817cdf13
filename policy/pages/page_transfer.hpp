// SPDX-License-Identifier: Apache-2.0
// KV pages on their way to and from the disk, as DiskTraffic decides them and others
// do them. The generation says what is in a page: no other contents ever had the
// same, in this process or in one before it that shared its page file.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "policy/pages/page_copy.hpp"

namespace troupe {

// Owner of prompts: pages are shared within a tenant only.
using TenantId = std::uint64_t;

// Identity of a page's contents: all that is needed to find it again.
struct PageIdentity {
  TenantId tenant = 0;
  std::uint64_t generation = 0;
  std::uint64_t parent_generation = 0;  // of the page in front; 0: it is the first
  std::uint32_t depth = 0;              // pages in front
  std::vector<std::int32_t> tokens;     // page_size of them
  bool operator==(const PageIdentity&) const = default;
};

// Between host and disk: done at any time, each with an outcome of its own. Two
// that concern the same page are never under way together, but for an erasure or
// a release, which has to be done before what is queued for that page behind it.
struct DiskTransfer {
  // kErase: the page's bytes are overwritten. kRelease: its space goes back to the
  // file system.
  enum class Direction : std::uint8_t { kWrite, kRead, kErase, kRelease };
  Direction direction = Direction::kWrite;
  std::uint32_t disk_page = 0;
  std::uint32_t host_page = 0;  // none for an erasure or a release
  PageIdentity identity;        // theirs is empty
};

enum class TransferOutcome : std::uint8_t {
  kDone,
  kFailed,   // the disk did not do it
  kNoRoom,   // the file may not grow: what is free is not for KV
  kDamaged,  // the contents to be copied are not those expected
};

// A page that a page file holds when it is opened.
struct StoredPage {
  std::uint32_t disk_page = 0;
  PageIdentity identity;
  std::chrono::seconds age{0};  // since it was written; never negative
};

}  // namespace troupe
