// SPDX-License-Identifier: Apache-2.0
// The door of an engine: lets requests in by policy/admitting/fair_door.hpp and counts each
// one as long as its pass lives.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "policy/admitting/fair_door.hpp"

namespace troupe {

using DoorPass = std::shared_ptr<const void>;

// Any thread.
class EngineDoor : public std::enable_shared_from_this<EngineDoor> {
 public:
  explicit EngineDoor(std::uint32_t limit) : policy_(limit) {}

  // Null: refused.
  DoorPass enter(const std::string& flow, std::uint32_t weight = 1);
  std::uint64_t num_inside() const;

 private:
  mutable std::mutex mutex_;
  FairDoor policy_;
};

}  // namespace troupe
