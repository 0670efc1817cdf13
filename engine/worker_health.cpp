// SPDX-License-Identifier: Apache-2.0
#include "engine/worker_health.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Loading the weights of a large model takes minutes.
constexpr std::chrono::minutes kLongestRestart{10};

}  // namespace

void WorkerHealth::come_up(const WorkerReady& event) {
  epoch = event.epoch;
  is_up = true;
  can_be_abandoned = event.can_be_abandoned;
  trouble = Trouble::kNone;
  watch.start();
}

void WorkerHealth::go_down(TimePoint now) {
  is_up = false;
  trouble = Trouble::kReplacingDevice;
  lost = now;
}

std::chrono::nanoseconds WorkerHealth::finish(const Owed& batch, TimePoint now) {
  trouble = Trouble::kNone;
  const auto time = now - std::max(batch.submitted, last_done);
  watch.take_finished(batch.num_tokens, time);
  return time;
}

std::optional<WorkerStalled> WorkerHealth::look(WorkerId id, std::optional<Owed> owed, bool is_last_loss,
                                                TimePoint now) {
  if (epoch == 0) return std::nullopt;
  const auto stalled = [&](bool is_hopeless, const char* reason) {
    return WorkerStalled{.worker = id, .epoch = epoch, .is_hopeless = is_hopeless, .reason = reason};
  };
  if (!is_up) {
    if (restart_time.look(now, lost) > kLongestRestart && is_last_loss)
      return stalled(true, "no new device comes up");
    return std::nullopt;
  }
  if (!owed) return std::nullopt;
  const auto finding = watch.look(now, std::max(owed->submitted, last_done), owed->num_tokens);
  if (finding == DeviceWatch::Finding::kFine) return std::nullopt;
  trouble = can_be_abandoned ? Trouble::kReplacingDevice : Trouble::kDeviceHangs;
  const bool is_hopeless = finding == DeviceWatch::Finding::kHopeless;
  if (!is_hopeless && !can_be_abandoned) return std::nullopt;
  return stalled(is_hopeless, "the device does not finish its batch");
}

void TroubleOfWorkers::add(const WorkerHealth& worker) {
  has_any_ = true;
  does_any_work_ = does_any_work_ || (worker.is_up && worker.trouble == Trouble::kNone);
  does_any_hang_ = does_any_hang_ || worker.trouble == Trouble::kDeviceHangs;
}

Trouble TroubleOfWorkers::result() const {
  if (does_any_hang_) return Trouble::kDeviceHangs;
  return !has_any_ || does_any_work_ ? Trouble::kNone : Trouble::kReplacingDevice;
}

}  // namespace troupe
