// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/fair_door.hpp"

namespace troupe {

bool FairDoor::enter(const std::string& flow, std::uint32_t weight) {
  const auto found = by_flow_.find(flow);
  const std::uint32_t num_own = found == by_flow_.end() ? 0 : found->second;
  const std::size_t num_flows = by_flow_.size() + (num_own == 0 ? 1 : 0);
  if (num_inside_ + weight > limit_ && num_own + weight > limit_ / num_flows) return false;
  by_flow_[flow] += weight;
  num_inside_ += weight;
  return true;
}

void FairDoor::leave(const std::string& flow, std::uint32_t weight) {
  const auto found = by_flow_.find(flow);
  num_inside_ -= weight;
  found->second -= weight;
  if (found->second == 0) by_flow_.erase(found);
}

}  // namespace troupe
