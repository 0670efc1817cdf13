// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/audited_pool.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

AuditedPool::AuditedPool(PagePoolOptions options)
    : options_(options),
      pool_(options),
      num_holders_(options.num_pages, 0),
      contents_(options.num_pages) {
  for (std::uint32_t page = 0; page < options.num_pages; ++page) free_.insert(page);
}

bool AuditedPool::reserve(ReservationId id, std::vector<std::int32_t> tokens,
                          std::size_t num_known, PageDemand demand) {
  const auto known = std::span<const std::int32_t>(tokens).first(num_known);
  const auto chain = longest_chain(known);
  const auto grant = pool_.reserve(id, known, demand);
  if (!grant) {
    std::size_t num_available = num_unheld();
    for (const NodeName name : chain) num_available -= num_holders_[nodes_.at(name).pages[0]] == 0;
    const std::size_t num_required =
        std::max<std::size_t>(demand.required, chain.size()) - chain.size();
    if (has_index() || !options_.prefix_cache)
      expect_room(false, num_available, num_required, demand);
    check_counts();
    return false;
  }
  const std::size_t num_shared = grant->cached_tokens / options_.page_size;
  expect(num_shared * options_.page_size == grant->cached_tokens, "whole pages are shared");
  expect(grant->cached_tokens < num_known, "a token is left to compute");
  expect(num_shared <= grant->pages.size(), "shared pages are granted");
  if (has_index()) expect(num_shared == chain.size(), "the longest known prefix is shared");
  if (!violation_.empty()) return false;

  std::size_t num_available = num_unheld();
  for (std::size_t i = 0; i < num_shared; ++i) {
    const std::uint32_t page = grant->pages[i];
    if (has_index()) expect(nodes_.at(chain[i]).pages[0] == page, "the indexed page is shared");
    num_available -= num_holders_[page] == 0;
    share(page, known.first((i + 1) * options_.page_size));
  }
  expect_number(grant->pages.size() - num_shared, num_available, num_shared, demand);
  for (std::size_t i = num_shared; i < grant->pages.size(); ++i) take(grant->pages[i]);
  num_hits_ += num_shared;
  reservations_[id] = {.tokens = std::move(tokens),
                       .pages = grant->pages,
                       .num_committed = num_shared,
                       .chain = chain};
  check_counts();
  return true;
}

bool AuditedPool::extend(ReservationId id, PageDemand demand) {
  const std::size_t num_available = num_unheld();
  const auto pages = pool_.extend(id, demand);
  if (pages) {
    expect_number(pages->size(), num_available, 0, demand);
    for (const std::uint32_t page : *pages) take(page);
    auto& held = reservations_.at(id).pages;
    held.insert(held.end(), pages->begin(), pages->end());
  } else {
    expect_room(false, num_available, demand.required, demand);
  }
  check_counts();
  return pages.has_value();
}

bool AuditedPool::commit(ReservationId id) {
  Reservation& reservation = reservations_.at(id);
  const std::size_t begin = reservation.num_committed * options_.page_size;
  const std::size_t end = begin + options_.page_size;
  if (end > reservation.tokens.size()) return false;
  if (reservation.num_committed >= reservation.pages.size()) return false;
  const auto tokens = std::span<const std::int32_t>(reservation.tokens);
  pool_.commit(id, tokens.subspan(begin, options_.page_size));
  const std::uint32_t page = reservation.pages[reservation.num_committed];
  contents_[page].assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  if (has_index()) index(reservation, tokens.subspan(begin, options_.page_size));
  reservation.num_committed += 1;
  check_counts();
  return true;
}

void AuditedPool::index(Reservation& reservation, std::span<const std::int32_t> page_tokens) {
  const NodeName parent = reservation.chain.empty() ? 0 : reservation.chain.back();
  expect(parent == 0 || nodes_.contains(parent), "what a running sequence hangs on stays");
  NodeName name = find(parent, page_tokens);
  if (name == 0) {
    name = ++last_name_;
    nodes_[name] = {
        .parent = parent, .tokens = {page_tokens.begin(), page_tokens.end()}, .pages = {}};
  }
  auto& pages = nodes_.at(name).pages;
  pages.push_back(reservation.pages[reservation.num_committed]);
  if (std::erase(cached_, pages[0]) > 0) let_go(pages[0]);
  reservation.chain.push_back(name);
}

void AuditedPool::release(ReservationId id) {
  pool_.release(id);
  const auto found = reservations_.find(id);
  if (found == reservations_.end()) return;
  const Reservation& reservation = found->second;
  for (std::size_t i = reservation.pages.size(); i-- > 0;) {
    const std::uint32_t page = reservation.pages[i];
    if (--num_holders_[page] == 0) let_go(page);
  }
  reservations_.erase(found);
  check_counts();
}

// Only the last of the pages that hold the same is cached.
void AuditedPool::let_go(std::uint32_t page) {
  const NodeName name = node_at(page);
  if (name != 0) {
    auto& pages = nodes_.at(name).pages;
    if (pages.size() == 1) return cached_.push_back(page);
    if (pages[0] == page) std::swap(pages[0], pages.back());
    std::erase(pages, page);
  }
  free_.insert(page);
}

std::vector<AuditedPool::NodeName> AuditedPool::longest_chain(
    std::span<const std::int32_t> tokens) const {
  std::vector<NodeName> chain;
  for (std::size_t end = options_.page_size; end < tokens.size(); end += options_.page_size) {
    const auto page_tokens = tokens.subspan(end - options_.page_size, options_.page_size);
    const NodeName name = find(chain.empty() ? 0 : chain.back(), page_tokens);
    if (name == 0) break;
    chain.push_back(name);
  }
  return chain;
}

AuditedPool::NodeName AuditedPool::find(NodeName parent,
                                        std::span<const std::int32_t> tokens) const {
  for (const auto& [name, node] : nodes_)
    if (node.parent == parent &&
        std::equal(tokens.begin(), tokens.end(), node.tokens.begin(), node.tokens.end()))
      return name;
  return 0;
}

AuditedPool::NodeName AuditedPool::node_at(std::uint32_t page) const {
  for (const auto& [name, node] : nodes_)
    if (std::count(node.pages.begin(), node.pages.end(), page) > 0) return name;
  return 0;
}

void AuditedPool::expect(bool is_true, const char* fact) {
  if (!is_true && violation_.empty()) violation_ = fact;
}

void AuditedPool::expect_room(bool is_granted, std::size_t num_available,
                              std::size_t num_required, PageDemand demand) {
  expect(is_granted == (num_available >= num_required + demand.keep_free),
         "a demand fails if and only if pages are short");
}

// As many as are wanted, of those that need not be left to others.
void AuditedPool::expect_number(std::size_t num_new, std::size_t num_available,
                                std::size_t num_shared, PageDemand demand) {
  const std::size_t required = std::max<std::size_t>(demand.required, num_shared) - num_shared;
  const std::size_t wanted = std::max<std::size_t>(demand.wanted, num_shared) - num_shared;
  expect_room(true, num_available, required, demand);
  if (!violation_.empty()) return;
  expect(num_new == std::min(std::max(required, wanted), num_available - demand.keep_free),
         "as many pages are granted as are wanted and may be had");
}

void AuditedPool::share(std::uint32_t page, std::span<const std::int32_t> prefix) {
  const auto& content = contents_[page];
  expect(std::equal(prefix.begin(), prefix.end(), content.begin(), content.end()),
         "a shared page holds the very tokens it is shared for");
  num_holders_[page] += 1;
  std::erase(cached_, page);
}

// To be written to: nobody holds it, and what it held is gone.
void AuditedPool::take(std::uint32_t page) {
  expect(page < options_.num_pages, "a page exists");
  if (!violation_.empty()) return;
  expect(num_holders_[page] == 0, "a page that is written to belongs to one");
  num_holders_[page] = 1;
  contents_[page].clear();
  if (options_.prefix_cache && !has_index()) return;
  if (free_.erase(page) == 0) evict(page);
}

void AuditedPool::evict(std::uint32_t page) {
  num_evictions_ += 1;
  expect(free_.empty(), "nothing is evicted while there are free pages");
  expect(!cached_.empty() && cached_.front() == page, "the least recently used page is evicted");
  if (!violation_.empty()) return;
  cached_.erase(cached_.begin());
  const NodeName evicted = node_at(page);
  for (const auto& [name, node] : nodes_)
    expect(node.parent != evicted, "a page is evicted after those that hang on it");
  nodes_.erase(evicted);
}

void AuditedPool::check_counts() {
  const PageCounts counts = pool_.counts();
  expect(counts.total == options_.num_pages, "no page comes or goes");
  expect(counts.free + counts.cached + counts.running == counts.total, "the counts add up");
  expect(counts.running == options_.num_pages - num_unheld(), "pages that are held are running");
  expect(pool_.num_reservations() == reservations_.size(), "every reservation is known");
  expect(pool_.is_consistent(), "the pool is consistent");
  if (!options_.prefix_cache) expect(counts.cached == 0, "nothing is cached without a cache");
  if (has_index()) expect(counts.cached == cached_.size(), "what may be shared is cached");
}

std::size_t AuditedPool::num_unheld() const {
  return static_cast<std::size_t>(std::count(num_holders_.begin(), num_holders_.end(), 0u));
}

}  // namespace troupe
