// SPDX-License-Identifier: Apache-2.0
// Which of the unused pages goes next. By value: what a page is worth
// (the cost of computing it again, for all that would miss it) divided by a power
// of the time since it was last used, lowest first; or by time alone, least
// recently used first. Pensieve (§3.4.3.1, eq. 3.4) divides by the time itself,
// which keeps dear pages of conversations that are over for too long: decision 0012.
//
// Values change with time, so no order of all pages lasts. Pages of about the
// same worth keep their order, though, so they share a lane, and the next to go
// is the oldest of some lane: choosing costs one division a lane, with any
// number of pages. Worths in a lane differ by at most 4.5 %.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "policy/pages/cache_quotas.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

struct EvictionEntry {
  using TimePoint = std::chrono::steady_clock::time_point;

  std::uint32_t id = 0;
  double worth = 1.0;       // > 0
  std::uint32_t depth = 0;  // pages before it in its sequence
  TimePoint last_used;
  QuotaId quota = kNoQuota;
};

class EvictionQueue {
 public:
  using TimePoint = EvictionEntry::TimePoint;

  explicit EvictionQueue(const ServingSettings& settings) : settings_(settings) {}

  void insert(const EvictionEntry& entry);  // its id must not be in here
  void erase(std::uint32_t id);             // must be in here
  // As erasing and inserting it again, but for most changes far cheaper: a small
  // one leaves it in its place. Must be in here; worth > 0.
  void change_worth(std::uint32_t id, double worth);
  bool contains(std::uint32_t id) const;
  std::size_t size() const { return size_; }

  // The page that goes next at `now`; of equal ones, by value the first of a sequence,
  // by time the last, so that what is left is the dearer, or the longer, part.
  std::optional<std::uint32_t> lowest(TimePoint now) const;
  // The same among pages for which may_go(id) is true.
  template <typename MayGo>
  std::optional<std::uint32_t> lowest(TimePoint now, MayGo may_go) const;
  // And of quotas that are over, if any is; one of another quota only if theirs may not go.
  template <typename MayGo>
  std::optional<std::uint32_t> lowest(TimePoint now, const QuotasOver& over, MayGo may_go) const;
  std::optional<std::uint32_t> lowest(TimePoint now, const QuotasOver& over) const;
  QuotaId quota(std::uint32_t id) const { return known(id).lane.first; }
  // Worth over a power of the age in seconds; comparable between queues of one policy.
  double value(std::uint32_t id, TimePoint now) const;
  // The same of what is not in here.
  double value_of(double worth, TimePoint last_used, TimePoint now) const;

 private:
  friend class Fingerprint;
  struct Place {  // an order within a lane
    TimePoint last_used;
    std::uint32_t tie = 0;
    std::uint32_t id = 0;
    auto operator<=>(const Place&) const = default;
  };
  using Lane = std::set<Place>;
  using LaneKey = std::pair<QuotaId, int>;  // and the logarithm of its worth
  struct Known {
    LaneKey lane = {};
    Place place;
    double worth = 0.0;
    double least_worth = 0.0;  // of its lane
    bool is_here = false;
  };

  // Table of ids near each other, up to the largest that came; one that grows as a whole
  // would stall.
  static constexpr std::uint32_t kChunk = 1024;

  Known& known(std::uint32_t id) { return chunks_[id / kChunk][id % kChunk]; }
  const Known& known(std::uint32_t id) const { return chunks_[id / kChunk][id % kChunk]; }
  void make_room(std::uint32_t id);
  Place place_of(const EvictionEntry& entry) const;
  void take_lane(Known& entry, QuotaId quota, double worth);
  template <typename HasLane, typename MayGo>
  std::optional<std::uint32_t> lowest_of(TimePoint now, HasLane has_lane, MayGo may_go) const;
  void leave_lane(const Known& entry);

  ServingSettings settings_;
  std::map<LaneKey, Lane> lanes_;           // none is empty
  std::vector<std::vector<Known>> chunks_;  // empty: none of its ids ever came
  std::size_t size_ = 0;
};

template <typename MayGo>
std::optional<std::uint32_t> EvictionQueue::lowest(TimePoint now, MayGo may_go) const {
  return lowest_of(
      now, [](QuotaId) { return true; }, may_go);
}

template <typename MayGo>
std::optional<std::uint32_t> EvictionQueue::lowest(TimePoint now, const QuotasOver& over,
                                                   MayGo may_go) const {
  if (!over.is_empty()) {
    const auto has_lane = [&](QuotaId quota) { return over.has(quota); };
    if (const auto found = lowest_of(now, has_lane, may_go)) return found;
  }
  return lowest(now, may_go);
}

template <typename HasLane, typename MayGo>
std::optional<std::uint32_t> EvictionQueue::lowest_of(TimePoint now, HasLane has_lane, MayGo may_go) const {
  std::optional<std::uint32_t> best;
  double best_value = 0.0;
  for (const auto& [key, lane] : lanes_) {
    if (!has_lane(key.first)) continue;
    for (const Place& place : lane) {
      if (!may_go(place.id)) continue;
      const double its_value = value(place.id, now);
      if (best && its_value >= best_value) break;
      best = place.id;
      best_value = its_value;
      break;
    }
  }
  return best;
}

}  // namespace troupe
