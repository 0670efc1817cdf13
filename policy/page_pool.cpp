// SPDX-License-Identifier: Apache-2.0
#include "policy/page_pool.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {

PagePool::PagePool(PagePoolOptions options) : options_(options), pages_(options.num_pages) {
  assert(options_.page_size > 0);
  free_.reserve(options_.num_pages);
  for (std::uint32_t page = options_.num_pages; page > 0; --page) free_.push_back(page - 1);
}

std::optional<PagePool::Grant> PagePool::reserve(ReservationId id,
                                                 std::span<const std::int32_t> tokens,
                                                 PageDemand demand) {
  assert(!reservations_.contains(id));
  Reservation reservation;
  reservation.pages = match(tokens, reservation.chain);
  const auto num_shared = static_cast<std::uint32_t>(reservation.pages.size());
  reservation.num_committed = num_shared;

  std::uint32_t available = num_available();
  for (const std::uint32_t page : reservation.pages)
    available -= pages_[page].num_references == 0 ? 1 : 0;
  demand.required -= std::min(demand.required, num_shared);
  demand.wanted -= std::min(demand.wanted, num_shared);
  const auto num_new = pages_to_grant(demand, available);
  if (!num_new) return std::nullopt;

  for (const std::uint32_t page : reservation.pages) refer(page);
  for (std::uint32_t i = 0; i < *num_new; ++i) reservation.pages.push_back(take_page());
  Grant grant{.pages = reservation.pages, .cached_tokens = num_shared * options_.page_size};
  reservations_.emplace(id, std::move(reservation));
  return grant;
}

// The longest chain of indexed pages that holds the beginning of `tokens`.
std::vector<std::uint32_t> PagePool::match(std::span<const std::int32_t> tokens,
                                           Chain& chain) const {
  std::vector<std::uint32_t> pages;
  if (!options_.prefix_cache || tokens.empty()) return pages;
  const std::size_t most = (tokens.size() - 1) / options_.page_size;
  for (std::size_t i = 0; i < most; ++i) {
    const auto page_tokens = tokens.subspan(i * options_.page_size, options_.page_size);
    const PageKey key = key_of(chain.key, page_tokens);
    const auto page = find(chain, key, page_tokens);
    if (!page) break;
    chain = Chain{.key = key, .serial = pages_[*page].serial, .is_broken = false};
    pages.push_back(*page);
  }
  return pages;
}

std::optional<std::uint32_t> PagePool::find(const Chain& parent, const PageKey& key,
                                            std::span<const std::int32_t> tokens) const {
  const auto found = index_.find(key);
  if (found == index_.end()) return std::nullopt;
  const Page& page = pages_[found->second];
  if (page.parent_serial != parent.serial) return std::nullopt;
  if (!std::equal(tokens.begin(), tokens.end(), page.tokens.begin(), page.tokens.end()))
    return std::nullopt;
  return found->second;
}

bool PagePool::is_indexed(const Chain& chain) const {
  const auto found = index_.find(chain.key);
  return found != index_.end() && pages_[found->second].serial == chain.serial;
}

PageKey PagePool::key_of(const PageKey& parent, std::span<const std::int32_t> tokens) const {
  PageKey key = page_key(options_.secret, parent, tokens);
  if (options_.hash_bits >= 128) return key;
  assert(options_.hash_bits < 64);
  return PageKey{.low = key.low & ((1ULL << options_.hash_bits) - 1), .high = 0};
}

std::uint32_t PagePool::num_available() const {
  return static_cast<std::uint32_t>(free_.size() + unused_.size());
}

std::uint32_t PagePool::take_page() {
  std::uint32_t page;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    page = unused_.front();
    unused_.pop_front();
    index_.erase(pages_[page].key);
    pages_[page].serial = 0;
    pages_[page].tokens.clear();
    ++num_evicted_;
  }
  pages_[page].num_references = 1;
  return page;
}

void PagePool::refer(std::uint32_t page) {
  if (pages_[page].num_references++ == 0) unused_.erase(pages_[page].unused);
}

void PagePool::unrefer(std::uint32_t page) {
  Page& record = pages_[page];
  assert(record.num_references > 0);
  if (--record.num_references > 0) return;
  if (!record.copies.empty()) return hand_over(page);
  if (record.is_copy) remove_copy(page);
  if (record.serial == 0) {
    free_.push_back(page);
  } else {
    record.unused = unused_.insert(unused_.end(), page);
  }
}

void PagePool::add_copy(std::uint32_t original, std::uint32_t copy) {
  Page& record = pages_[original];
  pages_[copy].is_copy = true;
  pages_[copy].key = record.key;
  record.copies.push_back(copy);
  if (record.num_references > 0) return;
  unused_.erase(record.unused);
  hand_over(original);
}

void PagePool::remove_copy(std::uint32_t copy) {
  pages_[copy].is_copy = false;
  std::erase(pages_[index_.at(pages_[copy].key)].copies, copy);
}

// The index goes on with a copy, which somebody holds; nobody holds this page.
// Were it evicted instead, what hangs on it could no longer be found.
void PagePool::hand_over(std::uint32_t page) {
  Page& from = pages_[page];
  const std::uint32_t heir = from.copies.back();
  from.copies.pop_back();
  Page& to = pages_[heir];
  to.is_copy = false;
  to.serial = std::exchange(from.serial, 0);
  to.parent_serial = from.parent_serial;
  to.tokens = std::exchange(from.tokens, {});
  to.copies = std::exchange(from.copies, {});
  index_[to.key] = heir;
  free_.push_back(page);
}

std::optional<std::vector<std::uint32_t>> PagePool::extend(ReservationId id, PageDemand demand) {
  const auto found = reservations_.find(id);
  if (found == reservations_.end()) return std::nullopt;
  const auto num_new = pages_to_grant(demand, num_available());
  if (!num_new) return std::nullopt;
  std::vector<std::uint32_t> pages;
  pages.reserve(*num_new);
  for (std::uint32_t i = 0; i < *num_new; ++i) pages.push_back(take_page());
  auto& held = found->second.pages;
  held.insert(held.end(), pages.begin(), pages.end());
  return pages;
}

void PagePool::commit(ReservationId id, std::span<const std::int32_t> page_tokens) {
  const auto found = reservations_.find(id);
  if (found == reservations_.end() || !options_.prefix_cache) return;
  assert(page_tokens.size() == options_.page_size);
  Reservation& reservation = found->second;
  Chain& chain = reservation.chain;
  const std::uint32_t page = reservation.pages.at(reservation.num_committed++);
  if (chain.serial != 0 && !is_indexed(chain)) chain.is_broken = true;
  if (chain.is_broken) return;

  const PageKey key = key_of(chain.key, page_tokens);
  if (const auto twin = find(chain, key, page_tokens)) {
    // Computed by two at once: the first one's page is the one to share.
    chain = Chain{.key = key, .serial = pages_[*twin].serial, .is_broken = false};
    add_copy(*twin, page);
    return;
  }
  const auto [slot, is_new] = index_.try_emplace(key, page);
  if (!is_new) {  // another chain sits at this key
    const Page& other = pages_[slot->second];
    if (other.num_references > 0) {
      chain.is_broken = true;
      return;
    }
    const std::uint32_t evicted = slot->second;
    unused_.erase(pages_[evicted].unused);
    pages_[evicted].serial = 0;
    pages_[evicted].tokens.clear();
    free_.push_back(evicted);
    slot->second = page;
  }
  Page& record = pages_[page];
  record.serial = ++last_serial_;
  record.parent_serial = chain.serial;
  record.key = key;
  record.tokens.assign(page_tokens.begin(), page_tokens.end());
  chain = Chain{.key = key, .serial = record.serial, .is_broken = false};
}

void PagePool::release(ReservationId id) {
  const auto found = reservations_.find(id);
  if (found == reservations_.end()) return;
  const auto& pages = found->second.pages;
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) unrefer(*page);
  reservations_.erase(found);
}

PageCounts PagePool::counts() const {
  PageCounts counts;
  counts.total = options_.num_pages;
  counts.free = static_cast<std::uint32_t>(free_.size());
  counts.cached = static_cast<std::uint32_t>(unused_.size());
  counts.running = counts.total - counts.free - counts.cached;
  return counts;
}

bool PagePool::is_consistent() const {
  std::vector<std::uint32_t> references(pages_.size(), 0);
  for (const auto& [id, reservation] : reservations_)
    for (const std::uint32_t page : reservation.pages) references[page] += 1;
  std::vector<int> idle(pages_.size(), 0);
  for (const std::uint32_t page : free_) {
    idle[page] += 1;
    if (pages_[page].serial != 0) return false;
  }
  for (const std::uint32_t page : unused_) {
    idle[page] += 1;
    if (pages_[page].serial == 0) return false;
  }
  std::size_t num_indexed = 0, num_copies = 0, num_copies_known = 0;
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    const Page& record = pages_[page];
    if (record.num_references != references[page]) return false;
    if (idle[page] != (references[page] == 0 ? 1 : 0)) return false;
    if (references[page] == 0 && (record.is_copy || !record.copies.empty())) return false;
    num_copies += record.is_copy ? 1 : 0;
    num_copies_known += record.copies.size();
    for (const std::uint32_t copy : record.copies)
      if (!pages_[copy].is_copy || pages_[copy].key != record.key) return false;
    if (record.serial == 0) continue;
    num_indexed += 1;
    const auto found = index_.find(record.key);
    if (found == index_.end() || found->second != page) return false;
  }
  return num_indexed == index_.size() && num_copies == num_copies_known;
}

}  // namespace troupe
