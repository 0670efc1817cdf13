// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulated_pages.hpp"

namespace troupe::loadgen {

SimulatedPages::SimulatedPages(const ServingSettings& serving)
    : page_size_(serving.pages.page_size), num_pages_(serving.num_pages) {
  if (!serving.prefix_cache) return;
  pool_.emplace(PagePoolOptions{.num_pages = num_pages_, .page_size = page_size_, .secret = {}});
}

std::optional<SimulatedPages::Grant> SimulatedPages::reserve(ReservationId id,
                                                             std::span<const std::int32_t> tokens,
                                                             const PageDemand& demand) {
  if (pool_) {
    const auto grant = pool_->reserve(id, tokens, demand);
    if (!grant) return std::nullopt;
    return Grant{.num_pages = static_cast<std::uint32_t>(grant->pages.size()),
                 .cached_tokens = grant->cached_tokens};
  }
  const auto num_pages = pages_to_grant(demand, num_available());
  if (!num_pages) return std::nullopt;
  num_taken_ += *num_pages;
  taken_by_.emplace(id, *num_pages);
  return Grant{.num_pages = *num_pages, .cached_tokens = 0};
}

std::optional<std::uint32_t> SimulatedPages::extend(ReservationId id, const PageDemand& demand) {
  if (pool_) {
    const auto pages = pool_->extend(id, demand);
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

void SimulatedPages::commit(ReservationId id, std::span<const std::int32_t> tokens) {
  if (!pool_) return;
  for (std::size_t i = 0; i + page_size_ <= tokens.size(); i += page_size_)
    pool_->commit(id, tokens.subspan(i, page_size_));
}

void SimulatedPages::release(ReservationId id) {
  if (pool_) return pool_->release(id);
  const auto found = taken_by_.find(id);
  if (found == taken_by_.end()) return;
  num_taken_ -= found->second;
  taken_by_.erase(found);
}

PageCounts SimulatedPages::counts() const {
  if (pool_) return pool_->counts();
  return {.total = num_pages_, .free = num_pages_ - num_taken_, .cached = 0,
          .running = num_taken_};
}

std::uint32_t SimulatedPages::num_available() const {
  const PageCounts now = counts();
  return now.free + now.cached;
}

}  // namespace troupe::loadgen
