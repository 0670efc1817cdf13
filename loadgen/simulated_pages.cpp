// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulated_pages.hpp"

namespace troupe::loadgen {
namespace {

PageCache::TimePoint point(SimulatedPages::Time now) { return PageCache::TimePoint(now); }

}  // namespace

std::uint32_t SimulatedPages::Grant::cached_tokens() const {
  std::uint32_t tokens = known_tokens;
  for (const troupe::TokenRange& hole : holes) tokens -= hole.size();
  return tokens;
}

SimulatedPages::SimulatedPages(const ServingSettings& serving)
    : page_size_(serving.pages.page_size), num_pages_(serving.num_pages) {
  if (!serving.prefix_cache) return;
  PageCacheOptions options;
  options.page_size = page_size_;
  options.num_device_pages = num_pages_;
  options.num_host_pages = serving.num_host_pages;
  options.policy = serving.cache_policy;
  options.cost = serving.recompute_cost;
  options.copy_ahead_below = serving.copy_ahead_below;
  cache_.emplace(std::move(options));
}

std::optional<SimulatedPages::Grant> SimulatedPages::reserve(LeaseId id, std::span<const std::int32_t> tokens,
                                                             const PageDemand& demand, Time now) {
  if (cache_) {
    auto grant = cache_->reserve(id, TenantId{0}, tokens, demand, point(now));
    cache_->take_copies();
    if (!grant) return std::nullopt;
    return Grant{.num_pages = static_cast<std::uint32_t>(grant->pages.size()),
                 .known_tokens = grant->known_tokens,
                 .holes = std::move(grant->holes)};
  }
  const auto num_pages = pages_to_grant(demand, num_available());
  if (!num_pages) return std::nullopt;
  num_taken_ += *num_pages;
  taken_by_[id] = *num_pages;
  return Grant{.num_pages = *num_pages, .known_tokens = 0};
}

std::optional<std::uint32_t> SimulatedPages::extend(LeaseId id, const PageDemand& demand, Time now) {
  if (cache_) {
    const auto pages = cache_->extend(id, demand, point(now));
    cache_->take_copies();
    if (!pages) return std::nullopt;
    return static_cast<std::uint32_t>(pages->size());
  }
  const auto found = taken_by_.find(id);
  if (found == taken_by_.end()) return std::nullopt;
  const auto num_pages = pages_to_grant(demand, num_available());
  num_taken_ += num_pages.value_or(0);
  found->second += num_pages.value_or(0);
  return num_pages;
}

void SimulatedPages::commit(LeaseId id, std::uint32_t first_page, std::span<const std::int32_t> tokens) {
  if (!cache_) return;
  for (std::size_t i = 0; i + page_size_ <= tokens.size(); i += page_size_)
    cache_->commit(id, first_page++, tokens.subspan(i, page_size_));
}

void SimulatedPages::copy_ahead(Time now) {
  if (!cache_) return;
  cache_->copy_ahead(kMaxCopiesAhead, point(now));
  cache_->take_copies();
}

void SimulatedPages::release(LeaseId id, Time now) {
  if (cache_) return cache_->release(id, point(now));
  const auto taken = taken_by_.find(id);
  if (taken == taken_by_.end()) return;
  num_taken_ -= taken->second;
  taken_by_.erase(taken);
}

PageCounts SimulatedPages::counts() const {
  if (cache_) return cache_->counts();
  PageCounts counts;
  counts.total = num_pages_;
  counts.free = num_pages_ - num_taken_;
  counts.running = num_taken_;
  return counts;
}

std::uint32_t SimulatedPages::num_available() const {
  const PageCounts now = counts();
  return now.free + now.cached;
}

}  // namespace troupe::loadgen
