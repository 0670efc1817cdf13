// SPDX-License-Identifier: Apache-2.0
#include "policy/restart_intensity.hpp"

namespace troupe {

bool RestartIntensity::may_restart(TimePoint now) {
  while (!restarts_.empty() && now - restarts_.front() >= window_) restarts_.pop_front();
  if (restarts_.size() >= max_restarts_) return false;
  restarts_.push_back(now);
  return true;
}

}  // namespace troupe
