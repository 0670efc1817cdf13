// SPDX-License-Identifier: Apache-2.0
// Devices, a host and a disk in which every page says what is in it, and a
// PageCache that is asked through them: whatever it claims to be somewhere is
// looked for there. A device works in order, as late as it is let, and in no order
// with another one; the disk when and in the order the test decides.
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

#include "policy/pages/page_cache.hpp"

namespace troupe::test {

using Tokens = std::vector<std::int32_t>;
using TimePoint = PageCache::TimePoint;

inline constexpr std::uint32_t kPageSize = 2;
inline constexpr TenantId kTenant = 1;

inline TimePoint at(int second) { return TimePoint{std::chrono::seconds(second)}; }

struct PlayedOptions : PageCacheOptions {
  std::uint32_t num_workers = 1;
  std::uint32_t num_device_pages = 0;  // of each
};

inline PlayedOptions options_of(std::uint32_t num_device_pages, std::uint32_t num_host_pages = 0,
                                std::uint32_t num_disk_pages = 0) {
  PlayedOptions options;
  options.page_size = kPageSize;
  options.num_host_pages = num_host_pages;
  options.num_disk_pages = num_disk_pages;
  options.cost = {.constant = 1.0, .attention = {0.5, 1.0, 2.0}};
  options.serving.copy_ahead_below = 0.0;
  options.num_device_pages = num_device_pages;
  return options;
}

inline PageDemand exactly(std::size_t num_pages) {
  const auto number = static_cast<std::uint32_t>(num_pages);
  return {.required = number, .wanted = number};
}

class PlayedCache {
 public:
  explicit PlayedCache(PlayedOptions options)
      : cache(options),
        options_(options),
        devices_(options.num_workers),
        host_(options.num_host_pages),
        disk_(options.num_disk_pages) {
    add_workers();
  }

  // Tokens: all that are known; pages for all of them.
  std::optional<PageGrant> reserve(LeaseId id, const Tokens& tokens, int second = 0,
                                   TenantId tenant = kTenant, WorkerIndex worker = 0) {
    const std::uint32_t page_size = options_.page_size;
    const std::size_t num_pages = (tokens.size() + page_size - 1) / page_size;
    const KnownTokens known = cache.search().affinity(tenant, tokens).of(worker);
    const auto grant =
        cache.leases().reserve(worker, id, tenant, tokens, exactly(num_pages), at(second), quotas[tenant]);
    queue_copies();
    if (!grant) return grant;
    const std::uint32_t num_head_tokens = grant->known_tokens % page_size;
    CHECK(grant->tokens_from_device >= known.on_device);
    CHECK(grant->tokens_from_device <= known.on_device + num_head_tokens);
    const std::uint32_t most = known.on_device + known.on_host + num_head_tokens;
    CHECK(grant->tokens_from_device + grant->tokens_from_host <= most);
    if (options_.load_from_host == LoadCost{})
      CHECK(grant->tokens_from_device + grant->tokens_from_host == most);
    Sequence& sequence = sequences_[id];
    sequence = {.worker = worker, .tokens = tokens, .pages = grant->pages, .is_computed = {}};
    for (std::uint32_t page = 0; page < grant->pages.size(); ++page) {
      const std::uint32_t begin = page * page_size;
      bool is_known = begin + page_size <= grant->known_tokens;
      for (const TokenRange hole : grant->holes)
        if (hole.begin <= begin && begin < hole.end) is_known = false;
      sequence.is_computed.push_back(is_known);
      if (is_known) expect(worker, grant->pages[page], prefix(sequence, page));
      if (begin < grant->known_tokens && begin + page_size > grant->known_tokens)
        expect(worker, grant->pages[page], {tokens.begin(), tokens.begin() + grant->known_tokens});
    }
    return grant;
  }

  // Computes and commits the first page that is not yet; false if none is left.
  bool compute(LeaseId id, int second = 0) {
    Sequence& sequence = sequences_.at(id);
    const auto begin = sequence.is_computed.begin();
    const auto next = std::find(begin, sequence.is_computed.end(), false);
    const auto page = static_cast<std::uint32_t>(next - begin);
    const std::uint32_t page_size = options_.page_size;
    if ((page + 1) * page_size > sequence.tokens.size()) return false;
    *next = true;
    finish_work_of(sequence.worker);
    devices_[sequence.worker].pages[sequence.pages[page]] = prefix(sequence, page);
    cache.leases().commit(id, page, std::span(sequence.tokens).subspan(page * page_size, page_size),
                          at(second));
    queue_copies();
    return true;
  }
  // Computes what is left, and its last page is known though it is not full.
  void end(LeaseId id, int second = 0) {
    while (compute(id, second)) {
    }
    Sequence& sequence = sequences_.at(id);
    const std::size_t page = sequence.tokens.size() / options_.page_size;
    const auto tail = std::span(sequence.tokens).subspan(page * options_.page_size);
    if (!tail.empty()) {
      finish_work_of(sequence.worker);
      devices_[sequence.worker].pages[sequence.pages[page]] = sequence.tokens;
      cache.leases().commit(id, static_cast<std::uint32_t>(page), tail, at(second));
    }
    release(id, second);
  }
  void release(LeaseId id, int second = 0) {
    const Sequence& sequence = sequences_.at(id);
    for (std::uint32_t page = 0; page < sequence.pages.size(); ++page)
      if (sequence.is_computed[page]) expect(sequence.worker, sequence.pages[page], prefix(sequence, page));
    cache.leases().release(id, at(second));
    sequences_.erase(id);
  }
  void run(LeaseId id, const Tokens& tokens, int second = 0, TenantId tenant = kTenant,
           WorkerIndex worker = 0) {
    REQUIRE(reserve(id, tokens, second, tenant, worker).has_value());
    while (compute(id, second)) {
    }
    release(id, second);
    finish_work_of(worker);
  }
  void copy_ahead(std::uint32_t most, int second = 0, WorkerIndex worker = 0) {
    cache.host().copy_ahead(worker, most, at(second));
    queue_copies();
  }
  // What it had to do is done, or never.
  void replace_worker(std::uint32_t num_pages, WorkerIndex worker = 0, bool finishes = true) {
    if (finishes) finish_work_of(worker);
    cache.remove_worker(worker);
    cache.add_worker(worker, num_pages);
    lose(worker, num_pages);
  }
  void finish_device_work() {
    for (WorkerIndex worker = 0; worker < devices_.size(); ++worker) finish_work_of(worker);
  }
  void finish_work_of(WorkerIndex worker) {
    while (do_next(worker)) {
    }
  }
  // The next thing that this device has to do; false: nothing.
  bool do_next(WorkerIndex worker) {
    auto& work = devices_.at(worker).work;
    if (work.empty()) return false;
    const auto deed = std::move(work.front());
    work.pop_front();
    deed();
    return true;
  }

  // Everything that is only on devices goes to the host and to the disk.
  void write_all(int second = 0) {
    for (int round = 0; round < 1000; ++round) {
      for (WorkerIndex worker = 0; worker < devices_.size(); ++worker)
        cache.disk().copy_behind(worker, 4, at(second));
      queue_copies();
      finish_device_work();
      cache.disk().write_behind(4, at(second));
      queue_transfers();
      if (transfers_.empty()) return;
      finish_transfers(second);
    }
    FAIL("writing does not come to an end");
  }
  void write_behind(std::uint32_t most, int second = 0, WorkerIndex worker = 0) {
    cache.disk().copy_behind(worker, most, at(second));
    cache.disk().write_behind(most, at(second));
    queue_copies();
    queue_transfers();
  }
  // How many pages are to be read.
  std::size_t fetch(const Tokens& tokens, int second = 0, TenantId tenant = kTenant, WorkerIndex worker = 0) {
    const std::size_t number = cache.disk().fetch(worker, tenant, tokens, at(second), quotas[tenant]).size();
    queue_copies();
    queue_transfers();
    return number;
  }
  void queue_transfers() {
    for (DiskTransfer& transfer : cache.disk().take_transfers()) {
      if (transfer.direction == DiskTransfer::Direction::kErase ||
          transfer.direction == DiskTransfer::Direction::kRelease) {
        disk_.at(transfer.disk_page).reset();
        continue;
      }
      const bool is_read = transfer.direction == DiskTransfer::Direction::kRead;
      for (const CopyUnderWay& other : copies_under_way_)
        if (!other.copy.is_within() && other.copy.host_page == transfer.host_page)
          CHECK_FALSE((is_read || other.copy.is_store()));
      transfers_.push_back(std::move(transfer));
    }
  }
  std::size_t num_transfers() const { return transfers_.size(); }
  const DiskTransfer& transfer(std::size_t number) const { return transfers_.at(number); }
  // Does the one with this number, or lets it fail.
  void finish_transfer(std::size_t number, bool fails, int second = 0,
                       TransferOutcome failure = TransferOutcome::kFailed) {
    const DiskTransfer transfer = transfers_.at(number);
    transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(number));
    const TransferOutcome outcome = fails ? failure : transferred(transfer);
    cache.disk().transfer_done(transfer, outcome, at(second));
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
    host_.assign(host_.size(), {});
    copies_under_way_.clear();
    cache = PageCache(options_);
    add_workers();
    cache.disk().restore(std::move(stored), at(second));
    queue_transfers();
  }
  const auto& sequences() const { return sequences_; }

  PageCache cache;
  std::map<TenantId, QuotaId> quotas;  // by tenant; none: kNoQuota

 private:
  struct Sequence {
    WorkerIndex worker = 0;
    Tokens tokens;
    std::vector<std::uint32_t> pages;
    std::vector<bool> is_computed;
  };
  struct Device {
    std::vector<Tokens> pages;  // all tokens up to its last
    std::deque<std::function<void()>> work;
  };
  struct HostPage {
    std::uint64_t generation = 0;
    Tokens contents;
  };
  struct DiskPage {
    PageIdentity identity;
    Tokens contents;
  };
  struct CopyUnderWay {
    WorkerIndex worker = 0;
    PageCopy copy;
    bool operator==(const CopyUnderWay&) const = default;
  };

  Tokens prefix(const Sequence& sequence, std::uint32_t page) const {
    const auto begin = sequence.tokens.begin();
    return {begin, begin + (page + 1) * options_.page_size};
  }
  void add_workers() {
    for (WorkerIndex worker = 0; worker < devices_.size(); ++worker) {
      cache.add_worker(worker, options_.num_device_pages);
      lose(worker, options_.num_device_pages);
    }
  }
  void lose(WorkerIndex worker, std::uint32_t num_pages) {
    devices_[worker] = {.pages = std::vector<Tokens>(num_pages), .work = {}};
    std::erase_if(sequences_, [&](const auto& each) { return each.second.worker == worker; });
    std::erase_if(copies_under_way_, [&](const CopyUnderWay& each) {
      if (each.worker != worker) return false;
      if (each.copy.is_store()) host_.at(each.copy.host_page) = {};  // half of it
      return true;
    });
  }
  void expect(WorkerIndex worker, std::uint32_t page, Tokens tokens) {
    devices_[worker].work.emplace_back([this, worker, page, tokens = std::move(tokens)] {
      const Tokens& there = devices_[worker].pages.at(page);
      REQUIRE(there.size() >= tokens.size());
      CHECK(std::equal(tokens.begin(), tokens.end(), there.begin()));
    });
  }
  void queue_copies() {
    for (WorkerIndex worker = 0; worker < devices_.size(); ++worker)
      for (const PageCopy& copy : cache.host().take_copies(worker)) {
        for (const CopyUnderWay& other : copies_under_way_)
          if (other.worker != worker && other.copy.host_page == copy.host_page && !copy.is_within() &&
              !other.copy.is_within())
            CHECK_FALSE((copy.is_store() || other.copy.is_store()));
        copies_under_way_.push_back({.worker = worker, .copy = copy});
        devices_[worker].work.emplace_back([this, worker, copy] { make(worker, copy); });
      }
  }
  void make(WorkerIndex worker, const PageCopy& copy) {
    std::vector<Tokens>& pages = devices_[worker].pages;
    if (copy.is_within()) {
      pages.at(copy.device_page) = pages.at(copy.from_page);
    } else if (copy.is_store()) {
      host_.at(copy.host_page) = {.generation = copy.generation, .contents = pages.at(copy.device_page)};
    } else {
      CHECK(host_.at(copy.host_page).generation == copy.generation);
      pages.at(copy.device_page) = host_.at(copy.host_page).contents;
    }
    const CopyUnderWay done{.worker = worker, .copy = copy};
    copies_under_way_.erase(std::find(copies_under_way_.begin(), copies_under_way_.end(), done));
    cache.host().copies_done(worker, {&copy, 1});
  }
  TransferOutcome transferred(const DiskTransfer& transfer) {
    auto& on_disk = disk_.at(transfer.disk_page);
    HostPage& on_host = host_.at(transfer.host_page);
    const PageIdentity& identity = transfer.identity;
    if (transfer.direction == DiskTransfer::Direction::kWrite) {
      const Tokens& contents = on_host.contents;
      CHECK(on_host.generation == identity.generation);
      CHECK(contents.size() == (identity.depth + 1) * options_.page_size);
      CHECK(std::equal(identity.tokens.rbegin(), identity.tokens.rend(), contents.rbegin()));
      on_disk = {.identity = identity, .contents = contents};
      return TransferOutcome::kDone;
    }
    on_host = {.generation = 0, .contents = {-1}};  // half of it
    if (!on_disk || on_disk->identity.generation != identity.generation || on_disk->contents.empty())
      return TransferOutcome::kDamaged;
    on_host = {.generation = identity.generation, .contents = on_disk->contents};
    return TransferOutcome::kDone;
  }

  PlayedOptions options_;
  std::map<LeaseId, Sequence> sequences_;
  std::vector<Device> devices_;  // by worker
  std::vector<HostPage> host_;
  std::vector<std::optional<DiskPage>> disk_;
  std::vector<CopyUnderWay> copies_under_way_;
  std::vector<DiskTransfer> transfers_;
};

}  // namespace troupe::test
