// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/encoding_lanes.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

std::size_t EncodingLanes::lane_of(std::size_t num_bytes) {
  const auto lane = std::lower_bound(kLaneBytes.begin(), kLaneBytes.end(), num_bytes);
  return static_cast<std::size_t>(lane - kLaneBytes.begin());
}

// A tenant that comes anew has no credit from before.
void EncodingLanes::add(WaitingText text) {
  Lane& lane = lanes_[lane_of(text.num_bytes)];
  lane.served.emplace(text.tenant, lane.last_served);
  lane.texts.push_back(std::move(text));
}

bool EncodingLanes::remove(std::uint64_t id) {
  for (Lane& lane : lanes_)
    for (std::size_t i = 0; i < lane.texts.size(); ++i)
      if (lane.texts[i].id == id) {
        erase(lane, i);
        return true;
      }
  return false;
}

std::optional<std::uint64_t> EncodingLanes::take(std::size_t number) {
  Lane& lane = lanes_.at(number);
  if (lane.texts.empty()) return std::nullopt;
  const auto next = std::min_element(lane.served.begin(), lane.served.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t chosen = choose(lane, next->first);
  const std::uint64_t id = lane.texts[chosen].id;
  lane.last_served = std::exchange(next->second, next->second + lane.texts[chosen].num_bytes);
  lane.num_turns += 1;
  erase(lane, chosen);
  return id;
}

std::size_t EncodingLanes::num_waiting() const {
  std::size_t count = 0;
  for (const Lane& lane : lanes_) count += lane.texts.size();
  return count;
}

std::size_t EncodingLanes::choose(const Lane& lane, const std::string& tenant) {
  const bool takes_oldest = lane.num_turns % kTurnsAnOldest == kTurnsAnOldest - 1;
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < lane.texts.size(); ++i) {
    if (lane.texts[i].tenant != tenant) continue;
    if (!chosen || lane.texts[i].num_bytes < lane.texts[*chosen].num_bytes) chosen = i;
    if (takes_oldest) break;
  }
  return chosen.value_or(0);
}

void EncodingLanes::erase(Lane& lane, std::size_t position) {
  const std::string tenant = std::move(lane.texts[position].tenant);
  lane.texts.erase(lane.texts.begin() + static_cast<std::ptrdiff_t>(position));
  const bool still_waits = std::any_of(lane.texts.begin(), lane.texts.end(),
                                       [&](const WaitingText& text) { return text.tenant == tenant; });
  if (!still_waits) lane.served.erase(tenant);
}

}  // namespace troupe
