// SPDX-License-Identifier: Apache-2.0
// A device of a model that encodes, in virtual time: an input's vector is the sum of
// its tokens and their number. It fails when SimDevices::choose_fault says so.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tests/simulation/sim_device.hpp"

namespace troupe::sim {

std::vector<float> sim_vector(std::span<const std::int32_t> tokens);
// With room for small batches; inputs of at most 40 tokens.
SimDeviceSettings small_encoder();

class SimEncoder final : public Device {
 public:
  SimEncoder(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker);
  ~SimEncoder() override;

  const DeviceDescription& description() const override { return settings_.description; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override;
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override { listener_ = std::move(listener); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool can_be_abandoned() const override { return settings_.can_be_abandoned; }

  // As SimDevice.
  TimePoint next_completion() const;
  void ring_if_due();

 private:
  struct Submitted {
    std::shared_ptr<const Batch> batch;
    TimePoint done;
    Fault fault = Fault::kNone;
  };

  void check(const Batch& batch);

  SimDeviceSettings settings_;
  std::shared_ptr<SimDevices> shared_;
  WorkerId worker_;
  std::function<void()> listener_;
  std::deque<Submitted> queue_;  // submitted, not collected
  Ticket num_submitted_ = 0, num_collected_ = 0, num_rung_ = 0;
};

}  // namespace troupe::sim
