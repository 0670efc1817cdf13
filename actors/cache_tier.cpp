// SPDX-License-Identifier: Apache-2.0
#include "actors/cache_tier.hpp"

#include <span>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment,
                                              CacheTierOptions options) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment), options);
  const auto reply = [self](auto message) {
    self->send(caf::actor_cast<SchedulerActor>(self->current_sender()), std::move(message));
  };
  return {
      [self](const ResetPages& message) { self->state.reset(message); },
      [self, reply](const ReservePages& message) { reply(self->state.reserve(message)); },
      [self, reply](const ExtendPages& message) { reply(self->state.extend(message)); },
      [self](const CommitPages& message) { self->state.commit(message); },
      [self](const CollectPages&) { self->state.collect(); },
  };
}

void CacheTierState::initialize(Self self, Environment environment, CacheTierOptions options) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  options_ = options;
}

void CacheTierState::reset(const ResetPages& message) {
  epoch_ = message.epoch;
  page_size_ = message.page_size;
  pool_.emplace(PagePoolOptions{.num_pages = message.num_pages,
                                .page_size = message.page_size,
                                .prefix_cache = environment_->options.prefix_cache,
                                .secret = options_.secret,
                                .hash_bits = options_.hash_bits});
  published_evictions_ = 0;
  // Weak: a lease on its way somewhere must not keep this actor alive.
  bin_ = std::make_shared<LeaseReturnBin>([tier = self_->address()] {
    if (const auto strong = caf::actor_cast<CacheTierActor>(tier))
      caf::anon_send(strong, CollectPages{});
  });
  publish();
}

PagesReserved CacheTierState::reserve(const ReservePages& message) {
  PagesReserved reply;
  reply.epoch = message.epoch;
  reply.request = message.request;
  if (message.epoch != epoch_ || !pool_) return reply;
  take_returned();
  const PageDemand demand{.required = message.request.required,
                          .wanted = message.request.wanted,
                          .keep_free = message.keep_free};
  auto grant = pool_->reserve(last_lease_ + 1, *message.tokens, demand);
  if (!grant) return reply;
  reply.lease = std::make_shared<const PageLease>(++last_lease_, bin_);
  reply.pages = std::move(grant->pages);
  reply.cached_tokens = grant->cached_tokens;
  environment_->metrics.prefix_cache_queries.add(static_cast<double>(message.tokens->size()));
  environment_->metrics.prefix_cache_hits.add(reply.cached_tokens);
  publish();
  return reply;
}

PagesExtended CacheTierState::extend(const ExtendPages& message) {
  PagesExtended reply;
  reply.epoch = message.epoch;
  take_returned();
  for (const auto& extension : message.extensions) {
    ExtendedPages extended{.request = extension.request, .pages = {}};
    if (message.epoch == epoch_ && pool_) {
      const PageDemand demand{.required = extension.request.required,
                              .wanted = extension.request.wanted,
                              .keep_free = 0};
      if (auto pages = pool_->extend(extension.lease->id(), demand))
        extended.pages = std::move(*pages);
    }
    reply.extensions.push_back(std::move(extended));
  }
  publish();
  return reply;
}

void CacheTierState::commit(const CommitPages& message) {
  if (message.epoch != epoch_ || !pool_) return;
  for (const auto& commit : message.commits) {
    const std::span<const std::int32_t> tokens(commit.tokens);
    for (std::size_t i = 0; i + page_size_ <= tokens.size(); i += page_size_)
      pool_->commit(commit.lease->id(), tokens.subspan(i, page_size_));
  }
  take_returned();
  publish();
}

void CacheTierState::collect() {
  take_returned();
  publish();
}

bool CacheTierState::is_consistent() {
  take_returned();
  return !pool_ || pool_->is_consistent();
}

PageCounts CacheTierState::counts() {
  take_returned();
  return pool_ ? pool_->counts() : PageCounts{};
}

void CacheTierState::take_returned() {
  if (!bin_) return;
  for (const std::uint64_t lease : bin_->take_all()) pool_->release(lease);
}

void CacheTierState::publish() {
  if (!pool_) return;
  const PageCounts counts = pool_->counts();
  StatusBoard& board = *environment_->board;
  board.pages_total = counts.total;
  board.pages_free = counts.free;
  board.pages_cached = counts.cached;
  board.pages_running = counts.running;
  const Metrics& metrics = environment_->metrics;
  metrics.pages_capacity.set(counts.total);
  metrics.page_tokens.set(page_size_);
  metrics.pages_free.set(counts.free);
  metrics.pages_cached.set(counts.cached);
  metrics.pages_running.set(counts.running);
  const std::uint64_t evicted = pool_->num_evicted();
  metrics.pages_evicted.add(static_cast<double>(evicted - published_evictions_));
  published_evictions_ = evicted;
}

}  // namespace troupe
