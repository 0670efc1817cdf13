// SPDX-License-Identifier: Apache-2.0
#include "policy/health/restart_intensity.hpp"

#include <algorithm>

namespace troupe {

bool RestartIntensity::may_restart(TimePoint now, std::uint64_t death) {
  while (!restarts_.empty() && now - restarts_.front().time >= window_) restarts_.pop_front();
  if (restarts_.size() >= max_restarts_) return false;
  restarts_.push_back({.time = now, .death = death});
  return true;
}

void RestartIntensity::forgive(std::span<const std::uint64_t> deaths) {
  std::erase_if(restarts_, [deaths](const Restart& restart) {
    return std::find(deaths.begin(), deaths.end(), restart.death) != deaths.end();
  });
}

}  // namespace troupe
