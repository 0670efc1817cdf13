// SPDX-License-Identifier: Apache-2.0
// The device time that streams may take from encoders of the same worker before both take turns. Encoders
// earn it for the streams while no stream wants the device, a quarter of what they take, so that they keep
// four fifths of it whatever the streams do with theirs. Short answers among a flood of inputs then run as if
// they were alone; streams that never pause owe time, and take turns.
#pragma once

#include <algorithm>
#include <chrono>

namespace troupe {

// One instance a worker. Plain calls of one owner.
class StreamCredit {
 public:
  // The most credit, and the most debt: inputs wait for streams for so long, and for the batches that are
  // submitted by then.
  static constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(500);
  static constexpr int kTimesEarned = 4;  // time of encoders for each unit of credit

  bool is_left() const { return left_.count() > 0; }

  // An encoder's batch took so long, and no stream wanted the device.
  void earn(std::chrono::nanoseconds time) { change(std::max(time, kNone) / kTimesEarned); }
  // A stream's batch took so long, and inputs waited.
  void spend(std::chrono::nanoseconds time) { change(-std::max(time, kNone)); }

 private:
  friend class Fingerprint;
  static constexpr std::chrono::nanoseconds kNone{0};
  void change(std::chrono::nanoseconds by) { left_ = std::clamp(left_ + by, -kMost, kMost); }

  std::chrono::nanoseconds left_{0};  // below 0: a debt
};

}  // namespace troupe
