// SPDX-License-Identifier: Apache-2.0
#include "actors/cache_tier.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::chrono::minutes kDiskLookInterval{1};

}  // namespace

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment) {
  follow_rules(self, environment);
  self->state.initialize(self, std::move(environment));
  return {
      [self](const TransferPages& message) { self->state.transfer(message); },
      [self](const DiskGaveWay&) { self->state.take_way_given(); },
      [self](const DiskDoorbell&) { self->state.answer_disk(); },
      [self](const MakeRoom&) { self->state.make_room(); },
      [self](const CheckPulse& message) { self->state.note_pulse(message); },
  };
}

void CacheTierState::initialize(Self self, Environment environment) {
  self_ = self;
  census_ = std::make_unique<CensusEntry>(environment->census);
  environment_ = std::move(environment);
  disk_ = environment_->options.cache.disk;
  if (!disk_) return;
  disk_->set_listener([tier = self_->address()] {
    if (const auto strong = caf::actor_cast<CacheTierActor>(tier)) caf::anon_send(strong, DiskDoorbell{});
  });
}

CacheTierState::~CacheTierState() {
  if (disk_) disk_->set_listener({});
}

void CacheTierState::transfer(const TransferPages& message) {
  scheduler_ = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  if (!disk_ || message.transfers.empty()) return;
  look_at_disk();
  for (const DiskTransfer& transfer : message.transfers)
    num_releases_under_way_ += transfer.direction == DiskTransfer::Direction::kRelease ? 1 : 0;
  disk_->submit(message.transfers);
}

void CacheTierState::answer_disk() {
  if (!disk_) return;
  auto done = disk_->take_done();
  num_releases_under_way_ -=
      static_cast<std::uint32_t>(std::erase_if(done, [](const FinishedTransfer& finished) {
        return finished.transfer.direction == DiskTransfer::Direction::kRelease;
      }));
  const bool lacks_room = std::any_of(done.begin(), done.end(), [](const auto& finished) {
    return finished.outcome == TransferOutcome::kNoRoom;
  });
  if (!done.empty()) send_scheduler(TransfersDone{.transfers = std::move(done)});
  if (lacks_room) {
    note_shortage();
    give_way();
  }
  settle_room();
}

void CacheTierState::make_room() {
  room_wanted_.push_back(caf::actor_cast<caf::actor_addr>(self_->current_sender()));
  give_way();
  settle_room();
}

// As many pages as the file system lacks the space of.
void CacheTierState::give_way() {
  const std::uint32_t num_pages = disk_ ? disk_->num_pages_lacking() : 0;
  if (num_pages == 0) return;
  note_shortage();
  if (send_scheduler(DiskShort{.num_pages = num_pages})) num_ways_awaited_ += 1;
}

void CacheTierState::take_way_given() {
  num_ways_awaited_ -= 1;
  settle_room();
}

// The askers are told when nothing more is to come.
void CacheTierState::settle_room() {
  if (num_releases_under_way_ > 0 || num_ways_awaited_ > 0) return;
  for (const auto& asker : std::exchange(room_wanted_, {}))
    if (const auto store = caf::actor_cast<ResponseStoreActor>(asker)) self_->send(store, RoomMade{});
}

void CacheTierState::note_shortage() {
  if (std::exchange(is_short_of_space_, true)) return;
  last_look_at_disk_ = self_->clock().now();
  log(LogLevel::kWarning, "the disk is nearly full: KV on it makes room for conversations");
}

// Comes as long as requests are open: with nothing to transfer nothing else would
// notice that there is space again.
void CacheTierState::note_pulse(const CheckPulse& pulse) {
  environment_->board->pulse = pulse.number;
  look_at_disk();
}

// There may be space again.
void CacheTierState::look_at_disk() {
  const auto now = self_->clock().now();
  if (!is_short_of_space_ || now - last_look_at_disk_ < kDiskLookInterval) return;
  last_look_at_disk_ = now;
  if (disk_->num_pages_lacking() > 0) return;
  is_short_of_space_ = false;
  send_scheduler(DiskMayGrow{});
}

template <class Message>
bool CacheTierState::send_scheduler(Message message) {
  const auto scheduler = caf::actor_cast<SchedulerActor>(scheduler_);
  if (scheduler) self_->send(scheduler, std::move(message));
  return static_cast<bool>(scheduler);
}

}  // namespace troupe
