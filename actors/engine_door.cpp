// SPDX-License-Identifier: Apache-2.0
#include "actors/engine_door.hpp"

namespace troupe {

DoorPass EngineDoor::enter(const std::string& flow, std::uint32_t weight) {
  {
    const std::lock_guard lock(mutex_);
    if (!policy_.enter(flow, weight)) return nullptr;
  }
  return DoorPass(this, [door = shared_from_this(), flow, weight](const void*) {
    const std::lock_guard lock(door->mutex_);
    door->policy_.leave(flow, weight);
  });
}

std::uint64_t EngineDoor::num_inside() const {
  const std::lock_guard lock(mutex_);
  return policy_.num_inside();
}

}  // namespace troupe
