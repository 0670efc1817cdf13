// SPDX-License-Identifier: Apache-2.0
// The life of one worker as a core sees it: which incarnation it is, whether it is
// up, since when its device owes a batch, and when that has lasted too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/command.hpp"
#include "engine/event.hpp"
#include "engine/trouble.hpp"
#include "policy/health/device_watch.hpp"
#include "policy/health/watched_time.hpp"

namespace troupe {

struct WorkerHealth {
  using TimePoint = std::chrono::steady_clock::time_point;

  // The oldest batch in flight.
  struct Owed {
    TimePoint submitted;
    std::uint32_t num_tokens = 0;
  };

  Epoch epoch = 0;  // 0: it has never been up
  bool is_up = false;
  bool can_be_abandoned = false;  // the device
  Trouble trouble = Trouble::kNone;
  TimePoint last_done;  // when the device finished a batch, of whichever model
  TimePoint lost;
  DeviceWatch watch;
  WatchedTime restart_time{std::chrono::seconds(1)};

  void come_up(const WorkerReady& event);
  void go_down(TimePoint now);
  // The time the device spent on it.
  std::chrono::nanoseconds finish(const Owed& batch, TimePoint now);
  // Something else kept the device busy until now.
  void wait_for_others(TimePoint now) { last_done = now; }

  // The message for the supervisor, if there is one. owed: the oldest batch in flight, if there is one.
  // is_last_loss: none of the workers is up, and this one was lost last.
  std::optional<WorkerStalled> look(WorkerId id, std::optional<Owed> owed, bool is_last_loss, TimePoint now);
};

// A worker that works is enough; one that hangs in this process takes it down.
class TroubleOfWorkers {
 public:
  void add(const WorkerHealth& worker);
  Trouble result() const;

 private:
  bool has_any_ = false, does_any_work_ = false, does_any_hang_ = false;
};

}  // namespace troupe
