// SPDX-License-Identifier: Apache-2.0
#include "actors/cache_tier.hpp"

#include <span>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

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
      [self, reply](const CommitPages& message) {
        self->state.commit(message);
        if (auto moves = self->state.copy_ahead(); !moves.empty())
          reply(MovePages{.epoch = message.epoch, .moves = std::move(moves)});
      },
      [self](const CollectPages&) { self->state.collect(); },
      [self](const VoidContents& message) { self->state.void_contents(message); },
  };
}

void CacheTierState::initialize(Self self, Environment environment, CacheTierOptions options) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  options_ = options;
}

// The host's pages outlive a device; if they are the ones known, so does what
// is known of them.
void CacheTierState::reset(const ResetPages& message) {
  epoch_ = message.epoch;
  if (pages_ && page_size_ == message.page_size && num_host_pages_ == message.num_host_pages) {
    pages_->replace_device(message.num_pages);
  } else {
    const CacheOptions& cache = environment_->options.cache;
    published_ = {};
    page_size_ = message.page_size;
    num_host_pages_ = message.num_host_pages;
    pages_.emplace(PageCacheOptions{.page_size = message.page_size,
                                    .num_device_pages = message.num_pages,
                                    .num_host_pages = message.num_host_pages,
                                    .keeps_prefixes = cache.keeps_prefixes,
                                    .policy = cache.policy,
                                    .cost = environment_->model.recompute_cost,
                                    .copy_ahead_below = cache.copy_ahead_below,
                                    .secret = options_.secret,
                                    .hash_bits = options_.hash_bits});
  }
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
  if (message.epoch != epoch_ || !pages_) return reply;
  take_returned();
  const PageDemand demand{.required = message.request.required,
                          .wanted = message.request.wanted,
                          .keep_free = message.keep_free};
  auto grant = pages_->reserve(last_lease_ + 1, tenant_of(message.cache_salt), *message.tokens,
                               demand, now());
  reply.moves = take_moves();
  if (!grant) return reply;
  reply.lease = std::make_shared<const PageLease>(++last_lease_, bin_);
  reply.pages = std::move(grant->pages);
  reply.known_tokens = grant->known_tokens;
  reply.holes = std::move(grant->holes);
  environment_->metrics.prefix_cache_queries.add(static_cast<double>(message.tokens->size()));
  environment_->metrics.prefix_cache_hits.add(grant->tokens_from_device);
  environment_->metrics.prefix_cache_host_hits.add(grant->tokens_from_host);
  publish();
  return reply;
}

PagesExtended CacheTierState::extend(const ExtendPages& message) {
  PagesExtended reply;
  reply.epoch = message.epoch;
  take_returned();
  for (const auto& extension : message.extensions) {
    ExtendedPages extended{.request = extension.request, .pages = {}};
    if (message.epoch == epoch_ && pages_) {
      const PageDemand demand{.required = extension.request.required,
                              .wanted = extension.request.wanted,
                              .keep_free = 0};
      if (auto pages = pages_->extend(extension.lease->id(), demand, now()))
        extended.pages = std::move(*pages);
    }
    reply.extensions.push_back(std::move(extended));
  }
  reply.moves = take_moves();
  publish();
  return reply;
}

void CacheTierState::commit(const CommitPages& message) {
  if (message.epoch != epoch_ || !pages_) return;
  for (const auto& commit : message.commits) {
    const std::span<const std::int32_t> tokens(commit.tokens);
    std::uint32_t page = commit.first_page;
    for (std::size_t i = 0; i + page_size_ <= tokens.size(); i += page_size_)
      pages_->commit(commit.lease->id(), page++, tokens.subspan(i, page_size_));
  }
  take_returned();
  publish();
}

void CacheTierState::collect() {
  take_returned();
  publish();
}

void CacheTierState::void_contents(const VoidContents& message) {
  if (message.epoch != epoch_ || !pages_) return;
  for (const std::uint64_t generation : message.generations) {
    log(LogLevel::kWarning, "a KV page was not intact on the host, it is computed again",
        {{"generation", generation}});
    pages_->void_contents(generation);
    environment_->metrics.pages_not_intact.add();
  }
  publish();
}

std::vector<PageMove> CacheTierState::copy_ahead() {
  if (!pages_) return {};
  pages_->copy_ahead(kMaxCopiesAhead, now());
  return take_moves();
}

bool CacheTierState::is_consistent() {
  take_returned();
  return !pages_ || pages_->is_consistent();
}

PageCounts CacheTierState::counts() {
  take_returned();
  return pages_ ? pages_->counts() : PageCounts{};
}

void CacheTierState::take_returned() {
  if (!bin_ || !pages_) return;
  for (const std::uint64_t lease : bin_->take_all()) pages_->release(lease, now());
}

std::vector<PageMove> CacheTierState::take_moves() {
  std::vector<PageMove> moves;
  for (const PageCopy& copy : pages_->take_copies())
    moves.push_back({.to_host = copy.direction == PageCopy::Direction::kStore,
                     .device_page = copy.device_page,
                     .host_page = copy.host_page,
                     .generation = copy.generation});
  return moves;
}

// 64 bits of a keyed hash: who shares pages with whom can't be steered from
// outside.
TenantId CacheTierState::tenant_of(const std::string& cache_salt) const {
  const std::vector<std::int32_t> bytes(cache_salt.begin(), cache_salt.end());
  return page_key(options_.secret, {}, bytes).low;
}

CacheTierState::TimePoint CacheTierState::now() const { return self_->clock().now(); }

void CacheTierState::publish() {
  if (!pages_) return;
  const PageCounts counts = pages_->counts();
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
  metrics.host_pages_capacity.set(counts.host_total);
  metrics.host_pages_free.set(counts.host_free);
  metrics.host_pages_cached.set(counts.host_total - counts.host_free);
  const PageCacheStatistics& all = pages_->statistics();
  const auto add = [](const Counter& counter, std::uint64_t all, std::uint64_t published) {
    if (all > published) counter.add(static_cast<double>(all - published));
  };
  add(metrics.pages_kept_on_host, all.reclaimed, published_.reclaimed);
  add(metrics.pages_dropped, all.dropped_from_device, published_.dropped_from_device);
  add(metrics.host_pages_dropped, all.dropped_from_host, published_.dropped_from_host);
  add(metrics.pages_stored, all.stored, published_.stored);
  add(metrics.pages_loaded, all.loaded, published_.loaded);
  published_ = all;
}

}  // namespace troupe
