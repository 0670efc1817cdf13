// SPDX-License-Identifier: Apache-2.0
// A device, a host and a disk in which every page says what is in it, and a
// PageCache that is asked through them: whatever it claims to be somewhere is
// looked for there. The device works in order, as late as it is let; the disk
// when and in the order the test decides.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policy/page_cache.hpp"

namespace troupe::test {

using Tokens = std::vector<std::int32_t>;
using TimePoint = PageCache::TimePoint;

inline constexpr std::uint32_t kPageSize = 2;
inline constexpr TenantId kTenant = 1;

inline TimePoint at(int second) { return TimePoint{std::chrono::seconds(second)}; }

inline PageCacheOptions options_of(std::uint32_t num_device_pages, std::uint32_t num_host_pages = 0,
                                   std::uint32_t num_disk_pages = 0) {
  return {.page_size = kPageSize,
          .num_device_pages = num_device_pages,
          .num_host_pages = num_host_pages,
          .num_disk_pages = num_disk_pages,
          .cost = {.constant = 1.0, .attention = {0.5, 1.0, 2.0}},
          .copy_ahead_below = 0.0,
          .secret = {.k0 = 1, .k1 = 2}};
}

inline PageDemand exactly(std::size_t num_pages) {
  const auto number = static_cast<std::uint32_t>(num_pages);
  return {.required = number, .wanted = number};
}

class PlayedCache {
 public:
  explicit PlayedCache(PageCacheOptions options)
      : cache(options),
        options_(options),
        device_(options.num_device_pages),
        host_(options.num_host_pages),
        disk_(options.num_disk_pages) {}

  // Tokens: all that are known; pages for all of them.
  std::optional<PageCache::Grant> reserve(LeaseId id, const Tokens& tokens, int second = 0,
                                          TenantId tenant = kTenant) {
    const std::size_t num_pages = (tokens.size() + kPageSize - 1) / kPageSize;
    const auto grant = cache.reserve(id, tenant, tokens, exactly(num_pages), at(second));
    queue_copies();
    if (!grant) return grant;
    Sequence& sequence = sequences_[id];
    sequence = {.tokens = tokens, .pages = grant->pages, .is_computed = {}};
    for (std::uint32_t page = 0; page < grant->pages.size(); ++page) {
      const std::uint32_t begin = page * kPageSize;
      bool is_known = begin + kPageSize <= grant->known_tokens;
      for (const TokenRange hole : grant->holes)
        if (hole.begin <= begin && begin < hole.end) is_known = false;
      sequence.is_computed.push_back(is_known);
      if (is_known) expect(grant->pages[page], prefix(sequence, page));
    }
    return grant;
  }

  // Computes and commits the first page that is not yet; false if none is left.
  bool compute(LeaseId id) {
    Sequence& sequence = sequences_.at(id);
    const auto begin = sequence.is_computed.begin();
    const auto next = std::find(begin, sequence.is_computed.end(), false);
    const auto page = static_cast<std::uint32_t>(next - begin);
    if ((page + 1) * kPageSize > sequence.tokens.size()) return false;
    *next = true;
    finish_device_work();
    device_[sequence.pages[page]] = prefix(sequence, page);
    cache.commit(id, page, std::span(sequence.tokens).subspan(page * kPageSize, kPageSize));
    queue_copies();
    return true;
  }
  void release(LeaseId id, int second = 0) {
    const Sequence& sequence = sequences_.at(id);
    for (std::uint32_t page = 0; page < sequence.pages.size(); ++page)
      if (sequence.is_computed[page]) expect(sequence.pages[page], prefix(sequence, page));
    cache.release(id, at(second));
    sequences_.erase(id);
  }
  void run(LeaseId id, const Tokens& tokens, int second = 0, TenantId tenant = kTenant) {
    REQUIRE(reserve(id, tokens, second, tenant).has_value());
    while (compute(id)) {
    }
    release(id, second);
    finish_device_work();
  }
  void copy_ahead(std::uint32_t most, int second = 0) {
    cache.copy_ahead(most, at(second));
    queue_copies();
  }
  void replace_device(std::uint32_t num_pages) {
    finish_device_work();
    cache.replace_device(num_pages);
    device_.assign(num_pages, {});
    sequences_.clear();
  }
  void finish_device_work() {
    for (; !device_work_.empty(); device_work_.pop_front()) device_work_.front()();
  }

  // Everything that is only on the device goes to the host and to the disk.
  void write_all(int second = 0) {
    for (int round = 0; round < 1000; ++round) {
      cache.copy_behind(4, at(second));
      queue_copies();
      finish_device_work();
      cache.write_behind(4, at(second));
      queue_transfers();
      if (transfers_.empty()) return;
      finish_transfers(second);
    }
    FAIL("writing does not come to an end");
  }
  void write_behind(std::uint32_t most, int second = 0) {
    cache.copy_behind(most, at(second));
    cache.write_behind(most, at(second));
    queue_copies();
    queue_transfers();
  }
  // How many pages are to be read.
  std::size_t fetch(const Tokens& tokens, int second = 0, TenantId tenant = kTenant) {
    const std::size_t number = cache.fetch(tenant, tokens, at(second)).size();
    queue_copies();
    queue_transfers();
    return number;
  }
  std::size_t num_transfers() const { return transfers_.size(); }
  // Does the one with this number, or lets it fail.
  void finish_transfer(std::size_t number, bool fails, int second = 0) {
    const DiskTransfer transfer = transfers_.at(number);
    transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(number));
    const TransferOutcome outcome = fails ? TransferOutcome::kFailed : transferred(transfer);
    cache.transfer_done(transfer, outcome, at(second));
    queue_transfers();
  }
  void finish_transfers(int second = 0) {
    while (!transfers_.empty()) finish_transfer(0, false, second);
  }
  // A bit flips.
  void damage_disk(std::size_t page) {
    if (disk_.at(page)) disk_.at(page)->contents.clear();
  }
  // A new process over the same disk, in which transfers were cut short.
  void restart(int second = 0) {
    std::vector<StoredPage> stored;
    for (std::uint32_t page = 0; page < disk_.size(); ++page)
      if (disk_[page]) stored.push_back({.disk_page = page, .identity = disk_[page]->identity, .age = {}});
    transfers_.clear();
    sequences_.clear();
    device_work_.clear();
    device_.assign(device_.size(), {});
    host_.assign(host_.size(), {});
    cache = PageCache(options_);
    cache.restore(std::move(stored), at(second));
    queue_transfers();
  }
  const auto& sequences() const { return sequences_; }

  PageCache cache;

 private:
  struct Sequence {
    Tokens tokens;
    std::vector<std::uint32_t> pages;
    std::vector<bool> is_computed;
  };
  struct DiskPage {
    PageIdentity identity;
    Tokens contents;
  };

  static Tokens prefix(const Sequence& sequence, std::uint32_t page) {
    const auto begin = sequence.tokens.begin();
    return {begin, begin + (page + 1) * kPageSize};
  }
  void expect(std::uint32_t page, Tokens tokens) {
    device_work_.emplace_back(
        [this, page, tokens = std::move(tokens)] { CHECK(device_.at(page) == tokens); });
  }
  void queue_copies() {
    for (const PageCopy& copy : cache.take_copies())
      device_work_.emplace_back([this, copy] {
        Tokens& on_host = host_.at(copy.host_page);
        Tokens& on_device = device_.at(copy.device_page);
        if (copy.direction == PageCopy::Direction::kStore) {
          on_host = on_device;
        } else {
          on_device = on_host;
        }
        cache.copies_done({&copy, 1});
      });
  }
  void queue_transfers() {
    for (DiskTransfer& transfer : cache.take_transfers()) {
      if (transfer.direction == DiskTransfer::Direction::kErase) {
        disk_.at(transfer.disk_page).reset();
      } else {
        transfers_.push_back(std::move(transfer));
      }
    }
  }
  TransferOutcome transferred(const DiskTransfer& transfer) {
    auto& on_disk = disk_.at(transfer.disk_page);
    Tokens& on_host = host_.at(transfer.host_page);
    if (transfer.direction == DiskTransfer::Direction::kWrite) {
      const Tokens& last = transfer.identity.tokens;
      CHECK(on_host.size() == (transfer.identity.depth + 1) * kPageSize);
      CHECK(std::equal(last.rbegin(), last.rend(), on_host.rbegin()));
      on_disk = {.identity = transfer.identity, .contents = on_host};
      return TransferOutcome::kDone;
    }
    on_host = {-1};  // half of it
    if (!on_disk || on_disk->identity.generation != transfer.identity.generation || on_disk->contents.empty())
      return TransferOutcome::kDamaged;
    on_host = on_disk->contents;
    return TransferOutcome::kDone;
  }

  PageCacheOptions options_;
  std::map<LeaseId, Sequence> sequences_;
  std::vector<Tokens> device_, host_;  // by page: all tokens up to its last
  std::vector<std::optional<DiskPage>> disk_;
  std::deque<std::function<void()>> device_work_;
  std::vector<DiskTransfer> transfers_;
};

}  // namespace troupe::test
