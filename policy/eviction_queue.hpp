// SPDX-License-Identifier: Apache-2.0
// Which of the pages that nobody uses goes next. By value: what a page is worth
// (the cost of computing it again, for all who would miss it) divided by the
// square of the time since it was last used, lowest first; or by time alone,
// least recently used first. Pensieve (§3.4.3.1, eq. 3.4) divides by the time
// itself, which keeps dear pages of conversations that are over for too long:
// decision 0012.
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
#include <vector>

namespace troupe {

enum class EvictionPolicy : std::uint8_t { kValue, kLru };

struct EvictionEntry {
  using TimePoint = std::chrono::steady_clock::time_point;

  std::uint32_t id = 0;
  double worth = 1.0;       // > 0
  std::uint32_t depth = 0;  // pages before it in its sequence
  TimePoint last_used;
};

class EvictionQueue {
 public:
  using TimePoint = EvictionEntry::TimePoint;

  explicit EvictionQueue(EvictionPolicy policy) : policy_(policy) {}

  void insert(const EvictionEntry& entry);  // its id must not be in here
  void erase(std::uint32_t id);             // must be in here
  // As erasing and inserting it again, but for most changes far cheaper: a small
  // one leaves it in its place. Must be in here; worth > 0.
  void change_worth(std::uint32_t id, double worth);
  bool contains(std::uint32_t id) const;
  std::size_t size() const { return size_; }

  // What goes next at `now`; of equal ones, by value the first of a sequence,
  // by time the last, so that what is left is the dearer, or the longer, part.
  std::optional<std::uint32_t> lowest(TimePoint now) const;
  // Worth over the age in seconds, squared; comparable between queues of one policy.
  double value(std::uint32_t id, TimePoint now) const;
  // The same of what is not in here.
  double value_of(double worth, TimePoint last_used, TimePoint now) const;

 private:
  struct Place {  // an order within a lane
    TimePoint last_used;
    std::uint32_t tie = 0;
    std::uint32_t id = 0;
    auto operator<=>(const Place&) const = default;
  };
  using Lane = std::set<Place>;
  struct Known {
    int lane = 0;
    Place place;
    double worth = 0.0;
    double least_worth = 0.0;  // of its lane
    bool is_here = false;
  };

  // Of ids near each other; a table that grows as a whole would stall.
  static constexpr std::uint32_t kChunk = 1024;

  Known& known(std::uint32_t id) { return chunks_[id / kChunk][id % kChunk]; }
  const Known& known(std::uint32_t id) const { return chunks_[id / kChunk][id % kChunk]; }
  void make_room(std::uint32_t id);
  Place place_of(const EvictionEntry& entry) const;
  void take_lane(Known& entry, double worth);
  void leave_lane(const Known& entry);

  EvictionPolicy policy_;
  std::map<int, Lane> lanes_;               // none is empty
  std::vector<std::vector<Known>> chunks_;  // empty: none of its ids ever came
  std::size_t size_ = 0;
};

}  // namespace troupe
