// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/eviction_queue.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace troupe {
namespace {

constexpr double kLanesPerDoubling = 16.0;
const double kLaneWidth = std::exp2(1.0 / kLanesPerDoubling);  // 1.044

// Never zero: a page used just now has the highest value of its worth.
double age_seconds(EvictionEntry::TimePoint last_used, EvictionEntry::TimePoint now) {
  const auto age = std::max(now - last_used, EvictionEntry::TimePoint::duration(1));
  return std::chrono::duration<double>(age).count();
}

}  // namespace

EvictionQueue::Place EvictionQueue::place_of(const EvictionEntry& entry) const {
  const bool first_goes_first = settings_.cache_policy != EvictionPolicy::kLru;
  return {.last_used = entry.last_used,
          .tie = first_goes_first ? entry.depth : UINT32_MAX - entry.depth,
          .id = entry.id};
}

void EvictionQueue::insert(const EvictionEntry& entry) {
  assert(entry.worth > 0.0 && !contains(entry.id));
  make_room(entry.id);
  Known& added = known(entry.id);
  added = {.place = place_of(entry), .is_here = true};
  take_lane(added, entry.quota, settings_.cache_policy == EvictionPolicy::kLru ? 1.0 : entry.worth);
  size_ += 1;
}

void EvictionQueue::make_room(std::uint32_t id) {
  const std::size_t chunk = id / kChunk;
  if (chunk >= chunks_.size()) chunks_.resize(chunk + 1);
  if (chunks_[chunk].size() <= id % kChunk) chunks_[chunk].resize(id % kChunk + 1);
}

void EvictionQueue::take_lane(Known& entry, QuotaId quota, double worth) {
  entry.worth = worth;
  const int number = static_cast<int>(std::floor(std::log2(worth) * kLanesPerDoubling));
  entry.lane = {quota, number};
  entry.least_worth = std::exp2(number / kLanesPerDoubling);
  lanes_[entry.lane].insert(entry.place);
}

void EvictionQueue::leave_lane(const Known& entry) {
  const auto lane = lanes_.find(entry.lane);
  lane->second.erase(entry.place);
  if (lane->second.empty()) lanes_.erase(lane);
}

void EvictionQueue::change_worth(std::uint32_t id, double worth) {
  assert(contains(id) && worth > 0.0);
  if (settings_.cache_policy == EvictionPolicy::kLru) return;
  Known& entry = known(id);
  if (worth >= entry.least_worth && worth < entry.least_worth * kLaneWidth) {
    entry.worth = worth;
    return;
  }
  leave_lane(entry);
  take_lane(entry, entry.lane.first, worth);
}

void EvictionQueue::erase(std::uint32_t id) {
  assert(contains(id));
  Known& entry = known(id);
  leave_lane(entry);
  entry.is_here = false;
  size_ -= 1;
}

bool EvictionQueue::contains(std::uint32_t id) const {
  const std::size_t chunk = id / kChunk;
  return chunk < chunks_.size() && id % kChunk < chunks_[chunk].size() && known(id).is_here;
}

std::optional<std::uint32_t> EvictionQueue::lowest(TimePoint now) const {
  return lowest(now, [](std::uint32_t) { return true; });
}

std::optional<std::uint32_t> EvictionQueue::lowest(TimePoint now, const QuotasOver& over) const {
  return lowest(now, over, [](std::uint32_t) { return true; });
}

double EvictionQueue::value(std::uint32_t id, TimePoint now) const {
  assert(contains(id));
  const Known& entry = known(id);
  return value_of(entry.worth, entry.place.last_used, now);
}

double EvictionQueue::value_of(double worth, TimePoint last_used, TimePoint now) const {
  const double age = age_seconds(last_used, now);
  if (settings_.cache_policy == EvictionPolicy::kLru) return 1.0 / age;
  // The usual one without std::pow: a choice asks for the value of each lane's oldest.
  return worth /
         (settings_.age_exponent == 1.5 ? age * std::sqrt(age) : std::pow(age, settings_.age_exponent));
}

}  // namespace troupe
