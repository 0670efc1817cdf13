// SPDX-License-Identifier: Apache-2.0
// Requests that have come in and are not in the queue yet (their prompts are being
// encoded, their conversations read): how many there may be, of all flows and of
// each. Up to `limit` any flow may have; beyond it each may have limit / flows that
// are there, so a flow that fills the door keeps no other one out of its share. There are never
// more than limit x (1 + ln flows). A request may count as several: those that wait by
// one each, searches by their beams. One that counts for more than a share is refused while the door is full.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace troupe {

class FairDoor {
 public:
  explicit FairDoor(std::uint32_t limit) : limit_(limit) {}

  // False: refused, and not counted.
  [[nodiscard]] bool enter(const std::string& flow, std::uint32_t weight = 1);
  void leave(const std::string& flow, std::uint32_t weight = 1);
  std::uint64_t num_inside() const { return num_inside_; }

 private:
  std::uint32_t limit_;
  std::uint64_t num_inside_ = 0;
  std::unordered_map<std::string, std::uint32_t> by_flow_;  // none is 0
};

}  // namespace troupe
