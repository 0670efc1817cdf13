// SPDX-License-Identifier: Apache-2.0
#include "policy/eviction_queue.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace troupe {
namespace {

constexpr double kLanesPerDoubling = 16.0;  // 2^(1/16) = 1.044

// Never zero: a page used just now has the highest value of its worth.
double age_seconds(EvictionEntry::TimePoint last_used, EvictionEntry::TimePoint now) {
  const auto age = std::max(now - last_used, EvictionEntry::TimePoint::duration(1));
  return std::chrono::duration<double>(age).count();
}

}  // namespace

int EvictionQueue::lane_of(double worth) const {
  if (policy_ == EvictionPolicy::kLru) return 0;
  return static_cast<int>(std::floor(std::log2(worth) * kLanesPerDoubling));
}

EvictionQueue::Place EvictionQueue::place_of(const EvictionEntry& entry) const {
  const bool first_goes_first = policy_ == EvictionPolicy::kValue;
  return {.last_used = entry.last_used,
          .tie = first_goes_first ? entry.depth : UINT32_MAX - entry.depth,
          .id = entry.id};
}

void EvictionQueue::insert(const EvictionEntry& entry) {
  assert(entry.worth > 0.0 && !contains(entry.id));
  if (entry.id >= known_.size()) known_.resize(entry.id + 1);
  Known& known = known_[entry.id];
  known = {.lane = lane_of(entry.worth),
           .place = place_of(entry),
           .worth = policy_ == EvictionPolicy::kLru ? 1.0 : entry.worth,
           .is_here = true};
  lanes_[known.lane].insert(known.place);
  size_ += 1;
}

void EvictionQueue::erase(std::uint32_t id) {
  assert(contains(id));
  Known& known = known_[id];
  const auto lane = lanes_.find(known.lane);
  lane->second.erase(known.place);
  if (lane->second.empty()) lanes_.erase(lane);
  known.is_here = false;
  size_ -= 1;
}

bool EvictionQueue::contains(std::uint32_t id) const {
  return id < known_.size() && known_[id].is_here;
}

std::optional<std::uint32_t> EvictionQueue::lowest(TimePoint now) const {
  const Place* best = nullptr;
  double best_value = 0.0;
  for (const auto& [number, lane] : lanes_) {
    const Place& oldest = *lane.begin();
    const double oldest_value = value(oldest.id, now);
    if (best && oldest_value >= best_value) continue;
    best = &oldest;
    best_value = oldest_value;
  }
  if (!best) return std::nullopt;
  return best->id;
}

double EvictionQueue::value(std::uint32_t id, TimePoint now) const {
  assert(contains(id));
  const Known& known = known_[id];
  return known.worth / age_seconds(known.place.last_used, now);
}

}  // namespace troupe
