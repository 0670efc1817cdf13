// SPDX-License-Identifier: Apache-2.0
// Which of the long prompts that wait is encoded next. A lane takes texts of one
// range of sizes, one at a time, on a thread of its own, so that a text waits for
// none that is many times its size. In a lane tenants have equal shares, by bytes;
// of one tenant the shortest text goes first, every fourth time the oldest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct WaitingText {
  std::uint64_t id = 0;
  std::size_t num_bytes = 0;
  std::string tenant;
};

class EncodingLanes {
 public:
  // The largest text of each lane but the last, which has no limit.
  static constexpr std::array<std::size_t, 4> kLaneBytes = {64u << 10, 256u << 10, 1u << 20, 4u << 20};
  static constexpr std::size_t kNumLanes = kLaneBytes.size() + 1;
  static constexpr std::size_t kTurnsAnOldest = 4;

  static std::size_t lane_of(std::size_t num_bytes);

  void add(WaitingText text);
  // False if it does not wait.
  bool remove(std::uint64_t id);
  // The next text of a lane, which waits no more.
  std::optional<std::uint64_t> take(std::size_t lane);

  std::size_t num_waiting() const;

 private:
  struct Lane {
    std::vector<WaitingText> texts;               // by arrival
    std::map<std::string, std::uint64_t> served;  // bytes, of the tenants that wait
    std::uint64_t last_served = 0;                // of the tenant that had the last turn, before it
    std::uint64_t num_turns = 0;
  };

  static std::size_t choose(const Lane& lane, const std::string& tenant);
  static void erase(Lane& lane, std::size_t position);

  std::array<Lane, kNumLanes> lanes_;
};

}  // namespace troupe
