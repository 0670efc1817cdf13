// SPDX-License-Identifier: Apache-2.0
#include "engine/page_map.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "policy/pages/copy_budget.hpp"

namespace troupe {
namespace {

// Writes handed to the disk tier at once; reads overtake the rest. Their host pages are
// taken for so long: of a small host a quarter, or kLeastWrites.
constexpr std::uint32_t kMaxWrites = 32;
constexpr std::uint32_t kLeastWrites = 4;
constexpr std::chrono::seconds kPauseAfterFailedWrite{30};
constexpr std::chrono::minutes kExpiryInterval{1};
constexpr std::uint32_t kMaxExpired = 1000;

std::size_t num_over_the_link(std::span<const PageCopy> copies) {
  return static_cast<std::size_t>(
      std::count_if(copies.begin(), copies.end(), [](const PageCopy& copy) { return !copy.is_within(); }));
}

}  // namespace

PageMap::PageMap(const ServingSettings& serving, PageMapOptions options)
    : serving_(serving), options_(std::move(options)) {}

void PageMap::add_worker(WorkerId id, const DeviceDescription& device, TimePoint now) {
  if (id >= workers_.size()) workers_.resize(id + 1);
  workers_[id] = {};
  workers_[id].is_up = true;
  const bool is_known = pages_ && page_size_ == device.page_size && num_host_pages_ == device.num_host_pages;
  if (!is_known) make_pages(device, now);
  pages_->add_worker(id, device.num_pages);
}

void PageMap::lose_worker(WorkerId id) {
  workers_[id] = {};
  pages_->remove_worker(id);
}

void PageMap::make_pages(const DeviceDescription& device, TimePoint now) {
  const bool is_first = !pages_.has_value();
  page_size_ = device.page_size;
  num_host_pages_ = device.num_host_pages;
  // The disk is reached through host memory, and its earlier pages are listed by the first map only.
  has_disk_ = is_first && options_.num_disk_pages > 0 && serving_.keeps_prefixes() && num_host_pages_ > 0;
  pages_.emplace(PageCacheOptions{.page_size = device.page_size,
                                  .num_host_pages = device.num_host_pages,
                                  .num_disk_pages = has_disk_ ? options_.num_disk_pages : 0,
                                  .serving = serving_,
                                  .cost = options_.recompute_cost,
                                  .load_from_host = options_.load_from_host,
                                  .load_from_disk = options_.load_from_disk,
                                  .first_generation = has_disk_ ? options_.first_generation : 1});
  if (has_disk_) pages_->disk().restore(std::exchange(options_.stored, {}), now);
}

std::optional<PageMap::Reservation> PageMap::reserve(WorkerId worker, const Lookup& lookup, PageDemand demand,
                                                     TimePoint now) {
  pages_->set_quota(lookup.quota);
  auto grant = pages_->leases().reserve(worker, last_lease_ + 1, tenant_of(lookup.cache_salt), lookup.tokens,
                                        demand, now, lookup.quota.id);
  queue_copies(worker);
  if (!grant) return std::nullopt;
  last_lease_ += 1;
  return Reservation{.lease = last_lease_,
                     .pages = std::move(grant->pages),
                     .known_tokens = grant->known_tokens,
                     .holes = std::move(grant->holes),
                     .tokens_from_device = grant->tokens_from_device,
                     .tokens_from_host = grant->tokens_from_host};
}

bool PageMap::fetch(WorkerId worker, SequenceId sequence, std::uint64_t run, const Lookup& lookup,
                    TimePoint now) {
  if (!has_disk_) return false;
  pages_->set_quota(lookup.quota);
  const auto awaited =
      pages_->disk().fetch(worker, tenant_of(lookup.cache_salt), lookup.tokens, now, lookup.quota.id);
  if (awaited.empty()) return false;
  fetches_.push_back({.sequence = sequence, .run = run, .awaited = {awaited.begin(), awaited.end()}});
  return true;
}

PageAffinity PageMap::affinity(const Lookup& lookup) const {
  return pages_->search().affinity(tenant_of(lookup.cache_salt), lookup.tokens);
}

std::vector<PageId> PageMap::extend(WorkerId worker, LeaseId lease, PageDemand demand, TimePoint now) {
  auto pages = pages_->leases().extend(lease, demand, now);
  queue_copies(worker);
  return pages ? std::move(*pages) : std::vector<PageId>{};
}

void PageMap::commit(LeaseId lease, std::uint32_t first_page, std::span<const std::int32_t> tokens,
                     TimePoint now) {
  for (std::size_t i = 0; i < tokens.size(); i += page_size_)
    pages_->leases().commit(lease, first_page++,
                            tokens.subspan(i, std::min<std::size_t>(page_size_, tokens.size() - i)), now);
}

void PageMap::release(LeaseId lease, TimePoint now) { pages_->leases().release(lease, now); }

void PageMap::note_iteration(WorkerId id, std::chrono::nanoseconds iteration,
                             std::span<const PageCopy> copies) {
  const LoadCost& link = options_.load_from_host;
  if (link.per_page <= 0) return;
  Worker& worker = workers_[id];
  worker.iteration_before =
      std::exchange(worker.last_iteration, program_time(iteration, num_over_the_link(copies), link));
}

void PageMap::copy_ahead(WorkerId id, TimePoint now) {
  const Worker& worker = workers_[id];
  const auto iteration = std::min(worker.last_iteration, worker.iteration_before);
  pages_->host().copy_ahead(
      id, max_copies_ahead(iteration, options_.load_from_host, num_over_the_link(worker.copies)), now);
  queue_copies(id);
}

void PageMap::move_on(TimePoint now) {
  if (!pages_) return;
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    Worker& worker = workers_[id];
    if (!worker.is_up) continue;
    if (worker.num_copies_under_way == 0 && now >= no_writes_until_) {
      const auto iteration = std::min(worker.last_iteration, worker.iteration_before);
      pages_->disk().copy_behind(
          id, max_copies_behind(iteration, options_.load_from_host, num_over_the_link(worker.copies)), now);
      queue_copies(id);
    }
    // Those made ahead of need, and those of a sequence that has left: the disk, or a
    // flush, waits for them, and there may be no next batch.
    worker.may_copies_go_alone = worker.may_copies_go_alone || !worker.copies.empty();
  }
  expire(now);
  const std::uint32_t max_writes = std::clamp(num_host_pages_ / 4, kLeastWrites, kMaxWrites);
  if (num_writes_under_way_ < max_writes && now >= no_writes_until_)
    pages_->disk().write_behind(max_writes - num_writes_under_way_, now);
}

void PageMap::queue_copies(WorkerId id) {
  Worker& worker = workers_[id];
  const auto copies = pages_->host().take_copies(id);
  worker.copies.insert(worker.copies.end(), copies.begin(), copies.end());
  worker.num_copies_under_way += copies.size();
}

std::vector<PageCopy> PageMap::take_copies(WorkerId id) {
  workers_[id].may_copies_go_alone = false;
  return std::exchange(workers_[id].copies, {});
}

bool PageMap::has_copies_that_go_alone(WorkerId id) const {
  return workers_[id].may_copies_go_alone && !workers_[id].copies.empty();
}

void PageMap::copies_done(WorkerId id, std::span<const PageCopy> copies) {
  workers_[id].num_copies_under_way -= copies.size();
  pages_->host().copies_done(id, copies);
}

bool PageMap::is_settled() const {
  if (!has_disk_) return true;
  const auto is_still = [](const Worker& worker) { return worker.num_copies_under_way == 0; };
  return num_writes_under_way_ == 0 && std::all_of(workers_.begin(), workers_.end(), is_still);
}

PageCounts PageMap::counts(WorkerId worker) const {
  const bool is_up = worker < workers_.size() && workers_[worker].is_up;
  return is_up ? pages_->counts(worker) : PageCounts{};
}

void PageMap::void_contents(std::span<const std::uint64_t> generations) {
  for (const std::uint64_t generation : generations) pages_->disposal().void_contents(generation);
}

std::vector<DiskTransfer> PageMap::take_transfers() {
  if (!pages_ || !has_disk_) return {};
  auto transfers = pages_->disk().take_transfers();
  for (const DiskTransfer& transfer : transfers)
    num_writes_under_way_ += transfer.direction == DiskTransfer::Direction::kWrite ? 1 : 0;
  return transfers;
}

std::vector<PageMap::Fetched> PageMap::transfers_done(std::span<const FinishedTransfer> transfers,
                                                      TimePoint now) {
  std::vector<Fetched> fetched;
  for (const auto& [transfer, outcome] : transfers) {
    const bool is_read = transfer.direction == DiskTransfer::Direction::kRead;
    num_writes_under_way_ -= is_read ? 0 : 1;
    pages_->disk().transfer_done(transfer, outcome, now);
    if (is_read) {
      auto settled = settle_fetches(transfer, outcome == TransferOutcome::kDone);
      fetched.insert(fetched.end(), settled.begin(), settled.end());
    } else if (outcome == TransferOutcome::kFailed) {
      no_writes_until_ = now + kPauseAfterFailedWrite;
    }
  }
  return fetched;
}

std::vector<PageMap::Fetched> PageMap::settle_fetches(const DiskTransfer& transfer, bool is_done) {
  std::vector<Fetched> settled;
  for (Fetch& fetch : fetches_)
    if (fetch.awaited.erase(transfer.identity.generation) > 0) fetch.num_pages += is_done ? 1 : 0;
  std::erase_if(fetches_, [&](const Fetch& fetch) {
    if (!fetch.awaited.empty()) return false;
    settled.push_back(
        {.sequence = fetch.sequence, .run = fetch.run, .num_tokens = fetch.num_pages * page_size_});
    return true;
  });
  return settled;
}

void PageMap::forget(const Lookup& lookup, std::size_t num_kept) {
  if (pages_) pages_->disposal().forget(tenant_of(lookup.cache_salt), lookup.tokens, num_kept);
}

void PageMap::give_up_disk_pages(std::uint32_t num_pages, TimePoint now) {
  if (has_disk_) pages_->disk().give_up_pages(num_pages, now);
}

void PageMap::disk_may_grow() {
  if (has_disk_) pages_->disk().may_grow();
}

void PageMap::expire(TimePoint now) {
  if (serving_.keep_for.count() == 0 || now - last_expiry_ < kExpiryInterval) return;
  last_expiry_ = now;
  pages_->disposal().expire(now - serving_.keep_for, kMaxExpired);
}

bool PageMap::is_consistent() const { return !pages_ || pages_->is_consistent(); }

// 64 bits of a keyed hash: a client can't choose a salt that meets another's pages.
TenantId PageMap::tenant_of(std::string_view cache_salt) const {
  const std::vector<std::int32_t> bytes(cache_salt.begin(), cache_salt.end());
  return page_key(has_disk_ ? options_.disk_secret : options_.secret, {}, bytes).low;
}

}  // namespace troupe
