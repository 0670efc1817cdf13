// SPDX-License-Identifier: Apache-2.0
#include "actors/cache_tier.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

namespace troupe {

namespace {

// So many writes are handed to the disk tier at once; reads overtake the rest.
constexpr std::uint32_t kMaxWrites = 4;
constexpr std::chrono::seconds kPauseAfterFailedWrite{30};
constexpr std::chrono::minutes kExpiryInterval{1};
constexpr std::uint32_t kMaxExpired = 1000;

}  // namespace

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
      [self](const VoidContents& message) { self->state.void_contents(message); },
      [self](const MovesDone& message) { self->state.take_moves_done(message); },
      [self](const DiskDoorbell&) { self->state.answer_disk(); },
      [self](const FlushPages& message) { self->state.flush(message); },
      [self](const ForgetPages& message) { self->state.forget(message); },
  };
}

void CacheTierState::initialize(Self self, Environment environment, CacheTierOptions options) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  options_ = options;
  tenant_secret_ = options.secret;
}

CacheTierState::~CacheTierState() {
  if (disk_) disk_->set_listener({});
}

// The host's pages outlive a device; if they are the ones known, so does what
// is known of them.
void CacheTierState::reset(const ResetPages& message) {
  epoch_ = message.epoch;
  scheduler_ = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  num_moves_under_way_ = 0;
  if (pages_ && page_size_ == message.page_size && num_host_pages_ == message.num_host_pages) {
    pages_->replace_device(message.num_pages);
  } else {
    make_pages(message);
  }
  // Weak: a lease on its way somewhere must not keep this actor alive.
  bin_ = std::make_shared<LeaseReturnBin>([tier = self_->address()] {
    if (const auto strong = caf::actor_cast<CacheTierActor>(tier)) caf::anon_send(strong, CollectPages{});
  });
  publish();
}

void CacheTierState::make_pages(const ResetPages& message) {
  const CacheOptions& cache = environment_->options.cache;
  const bool is_first = !pages_.has_value();
  published_ = {};
  page_size_ = message.page_size;
  num_host_pages_ = message.num_host_pages;
  // What is on disk passes through the host, and is known of once.
  const bool has_disk = is_first && cache.disk && cache.keeps_prefixes && num_host_pages_ > 0;
  pages_.emplace(PageCacheOptions{.page_size = message.page_size,
                                  .num_device_pages = message.num_pages,
                                  .num_host_pages = message.num_host_pages,
                                  .num_disk_pages = has_disk ? cache.disk->num_pages() : 0,
                                  .keeps_prefixes = cache.keeps_prefixes,
                                  .policy = cache.policy,
                                  .cost = environment_->model.recompute_cost,
                                  .load_from_host = cache.load_from_host,
                                  .load_from_disk = cache.load_from_disk,
                                  .copy_ahead_below = cache.copy_ahead_below,
                                  .secret = options_.secret,
                                  .first_generation = has_disk ? cache.disk->first_generation() : 1,
                                  .hash_bits = options_.hash_bits});
  if (!has_disk) return;
  disk_ = cache.disk;
  tenant_secret_ = disk_->secret();
  disk_->set_listener([tier = self_->address()] {
    if (const auto strong = caf::actor_cast<CacheTierActor>(tier)) caf::anon_send(strong, DiskDoorbell{});
  });
  pages_->restore(disk_->take_stored(), now());
  submit_transfers();
  if (const PageCounts counts = pages_->counts(); counts.disk_free < counts.disk_total)
    log(LogLevel::kInfo, "KV pages of earlier conversations are on disk",
        {{"pages", counts.disk_total - counts.disk_free}});
}

PagesReserved CacheTierState::reserve(const ReservePages& message) {
  PagesReserved reply;
  reply.epoch = message.epoch;
  reply.request = message.request;
  if (message.epoch != epoch_ || !pages_) return reply;
  take_returned();
  if (message.may_fetch && begin_fetch(message)) {
    reply.is_fetching = true;
    return reply;
  }
  const PageDemand demand{
      .required = message.request.required, .wanted = message.request.wanted, .keep_free = message.keep_free};
  auto grant =
      pages_->reserve(last_lease_ + 1, tenant_of(message.cache_salt), *message.tokens, demand, now());
  reply.moves = take_moves();
  submit_transfers();
  if (!grant) return reply;
  reply.lease = std::make_shared<const PageLease>(++last_lease_, bin_);
  reply.pages = std::move(grant->pages);
  reply.known_tokens = grant->known_tokens;
  reply.holes = std::move(grant->holes);
  reply.sources.device = grant->tokens_from_device;
  reply.sources.disk = std::min(message.fetched_tokens, grant->tokens_from_host);
  reply.sources.host = grant->tokens_from_host - reply.sources.disk;
  const Metrics& metrics = environment_->metrics;
  metrics.prefix_cache_queries.add(static_cast<double>(message.tokens->size()));
  metrics.prefix_cache_hits.add(reply.sources.device);
  metrics.prefix_cache_host_hits.add(reply.sources.host);
  metrics.prefix_cache_disk_hits.add(reply.sources.disk);
  publish();
  return reply;
}

// False: the disk has nothing that is needed.
bool CacheTierState::begin_fetch(const ReservePages& message) {
  const auto awaited = pages_->fetch(tenant_of(message.cache_salt), *message.tokens, now());
  submit_transfers();
  if (awaited.empty()) return false;
  fetches_.push_back({.sequence = message.request.sequence,
                      .run = message.request.run,
                      .awaited = {awaited.begin(), awaited.end()}});
  return true;
}

PagesExtended CacheTierState::extend(const ExtendPages& message) {
  PagesExtended reply;
  reply.epoch = message.epoch;
  take_returned();
  for (const auto& extension : message.extensions) {
    ExtendedPages extended{.request = extension.request, .pages = {}};
    if (message.epoch == epoch_ && pages_) {
      const PageDemand demand{
          .required = extension.request.required, .wanted = extension.request.wanted, .keep_free = 0};
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
  pages_->copy_ahead(kMaxCopiesAhead, now());
  send_moves(false);
  move_on();
  publish();
}

void CacheTierState::collect() {
  take_returned();
  move_on();
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
  submit_transfers();
  publish();
}

void CacheTierState::take_moves_done(const MovesDone& message) {
  if (message.epoch != epoch_ || !pages_) return;
  num_moves_under_way_ -= message.moves.size();
  std::vector<PageCopy> copies;
  copies.reserve(message.moves.size());
  for (const PageMove& move : message.moves)
    copies.push_back({.direction = move.to_host ? PageCopy::Direction::kStore : PageCopy::Direction::kLoad,
                      .device_page = move.device_page,
                      .host_page = move.host_page,
                      .generation = move.generation});
  pages_->copies_done(copies);
  take_returned();
  move_on();
  publish();
}

void CacheTierState::answer_disk() {
  if (!disk_) return;
  for (const DiskTier::Done& done : disk_->take_done()) {
    const bool is_read = done.transfer.direction == DiskTransfer::Direction::kRead;
    (is_read ? num_reads_under_way_ : num_writes_under_way_) -= 1;
    pages_->transfer_done(done.transfer, done.outcome, now());
    if (is_read) settle_fetches(done.transfer, done.outcome == TransferOutcome::kDone);
    if (done.outcome == TransferOutcome::kDamaged)
      log(LogLevel::kWarning, "a KV page was not intact on its way to or from the disk",
          {{"disk_page", done.transfer.disk_page}});
    if (is_read || done.outcome != TransferOutcome::kFailed) continue;
    environment_->metrics.disk_writes_failed.add();
    no_writes_until_ = now() + kPauseAfterFailedWrite;
  }
  move_on();
  publish();
}

void CacheTierState::settle_fetches(const DiskTransfer& transfer, bool is_done) {
  for (Fetch& fetch : fetches_)
    if (fetch.awaited.erase(transfer.identity.generation) > 0) fetch.num_pages += is_done ? 1 : 0;
  std::erase_if(fetches_, [this](const Fetch& fetch) {
    if (!fetch.awaited.empty()) return false;
    send_scheduler(PagesFetched{
        .sequence = fetch.sequence, .run = fetch.run, .num_tokens = fetch.num_pages * page_size_});
    return true;
  });
}

void CacheTierState::flush(const FlushPages& message) {
  if (!pages_) return;
  take_returned();
  flushes_.push_back(message);
  move_on();
}

void CacheTierState::forget(const ForgetPages& message) {
  if (!pages_) return;
  take_returned();
  pages_->forget(tenant_of(message.cache_salt), *message.tokens, message.num_kept);
  submit_transfers();
  publish();
}

// What goes to the disk while there is time: a few copies to the host at once,
// the next when these are done, and from there.
void CacheTierState::move_on() {
  if (!pages_) return;
  if (num_moves_under_way_ == 0 && now() >= no_writes_until_) {
    pages_->copy_behind(kMaxCopiesAhead, now());
    send_moves(true);
  }
  expire();
  write_behind();
  submit_transfers();
  if (num_moves_under_way_ == 0 && num_writes_under_way_ == 0) flushes_.clear();
}

void CacheTierState::send_moves(bool may_go_alone) {
  auto moves = take_moves();
  if (moves.empty()) return;
  send_scheduler(MovePages{.epoch = epoch_, .moves = std::move(moves), .may_go_alone = may_go_alone});
}

void CacheTierState::write_behind() {
  if (num_writes_under_way_ >= kMaxWrites || now() < no_writes_until_) return;
  pages_->write_behind(kMaxWrites - num_writes_under_way_, now());
}

void CacheTierState::submit_transfers() {
  auto transfers = pages_->take_transfers();
  if (!disk_ || transfers.empty()) return;
  for (const DiskTransfer& transfer : transfers) {
    num_writes_under_way_ += transfer.direction == DiskTransfer::Direction::kWrite ? 1 : 0;
    num_reads_under_way_ += transfer.direction == DiskTransfer::Direction::kRead ? 1 : 0;
  }
  disk_->submit(std::move(transfers));
}

void CacheTierState::expire() {
  const auto keep = environment_->options.cache.keep_for;
  if (keep == std::chrono::seconds(0) || now() - last_expiry_ < kExpiryInterval) return;
  last_expiry_ = now();
  pages_->expire(now() - keep, kMaxExpired);
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
  num_moves_under_way_ += moves.size();
  return moves;
}

template <class Message>
void CacheTierState::send_scheduler(Message message) {
  if (const auto scheduler = caf::actor_cast<SchedulerActor>(scheduler_))
    self_->send(scheduler, std::move(message));
}

// 64 bits of a keyed hash: who shares pages with whom can't be steered from
// outside.
TenantId CacheTierState::tenant_of(const std::string& cache_salt) const {
  const std::vector<std::int32_t> bytes(cache_salt.begin(), cache_salt.end());
  return page_key(tenant_secret_, {}, bytes).low;
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
  metrics.disk_pages_capacity.set(counts.disk_total);
  metrics.disk_pages_free.set(counts.disk_free);
  metrics.disk_pages_cached.set(counts.disk_total - counts.disk_free);
  const PageCacheStatistics& all = pages_->statistics();
  const auto add = [](const Counter& counter, std::uint64_t all, std::uint64_t published) {
    if (all > published) counter.add(static_cast<double>(all - published));
  };
  add(metrics.pages_kept_on_host, all.reclaimed, published_.reclaimed);
  add(metrics.pages_dropped, all.dropped_from_device, published_.dropped_from_device);
  add(metrics.host_pages_kept_on_disk, all.kept_on_disk, published_.kept_on_disk);
  add(metrics.host_pages_dropped, all.dropped_from_host, published_.dropped_from_host);
  add(metrics.pages_stored, all.stored, published_.stored);
  add(metrics.pages_loaded, all.loaded, published_.loaded);
  add(metrics.pages_written, all.written, published_.written);
  add(metrics.pages_read, all.read, published_.read);
  add(metrics.disk_pages_dropped, all.dropped_from_disk, published_.dropped_from_disk);
  add(metrics.disk_pages_not_intact, all.damaged_on_disk, published_.damaged_on_disk);
  add(metrics.pages_forgotten, all.forgotten, published_.forgotten);
  add(metrics.pages_expired, all.expired, published_.expired);
  published_ = all;
}

}  // namespace troupe
