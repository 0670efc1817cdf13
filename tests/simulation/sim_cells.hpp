// SPDX-License-Identifier: Apache-2.0
// A device of a model whose cells keep rows, in virtual time: a row holds the tokens that
// led to it, and the next token is SimDevice's hash of these. A row that is stale, somebody
// else's, or read beside its writer gives a wrong token. It fails when
// SimDevices::choose_fault says so.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/networks/network.hpp"
#include "tests/simulation/sim_device.hpp"

namespace troupe::sim {

// With few rows, for sequences as long as those of small_settings().
SimDeviceSettings small_cells(const DeviceDescription& decoder);
// What the engine asks of it: a chain of nodes.
std::shared_ptr<const Network> chain_network();

class SimCells final : public Device {
 public:
  SimCells(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker);
  ~SimCells() override;

  const DeviceDescription& description() const override { return settings_.description; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override;
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override { listener_ = std::move(listener); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool needs_programs() const override { return false; }
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
  struct Row {
    std::vector<std::int32_t> tokens;
    std::int32_t drawn = -1;
  };

  void check(const Batch& batch);
  std::int32_t execute(const Batch& batch, std::size_t index, const std::vector<Row>& before);

  SimDeviceSettings settings_;
  std::shared_ptr<SimDevices> shared_;
  WorkerId worker_;
  std::function<void()> listener_;
  std::vector<Row> rows_;
  std::deque<Submitted> queue_;  // submitted, not collected
  Ticket num_submitted_ = 0, num_collected_ = 0, num_rung_ = 0;
};

}  // namespace troupe::sim
