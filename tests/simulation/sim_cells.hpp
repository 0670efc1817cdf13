// SPDX-License-Identifier: Apache-2.0
// A device of a model whose cells keep rows, in virtual time: a row holds the tokens that
// led to it, and the next token is SimDevice's hash of these; a node of a tree holds a hash of
// its word and its children. A row that is stale, somebody else's, or read beside its writer
// gives a wrong answer. A decoder looks at all states of its encoder, and at the token that it
// begins with. It fails when SimDevices::choose_fault says so.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/networks/network.hpp"
#include "tests/simulation/sim_device.hpp"

namespace troupe::sim {

struct SimCellSettings {
  UnfoldingKind kind = UnfoldingKind::kChain;
  SimDeviceSettings device;
  std::vector<std::uint32_t> max_cell_batches = {};  // as ServedModel
};

// With few rows, for sequences as long as those of small_settings().
SimCellSettings small_cells(const DeviceDescription& decoder, UnfoldingKind kind = UnfoldingKind::kChain);
// What the engine asks of it: the way to graphs. A decoder attends.
std::shared_ptr<const Network> cell_network(UnfoldingKind kind);

// The state of a tree's node, and the number that it gives. token: -1 without a word.
std::uint64_t sim_node(std::int32_t token, std::span<const std::uint64_t> children);
float sim_number(std::uint64_t node);

class SimCells final : public Device {
 public:
  SimCells(SimCellSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker);
  ~SimCells() override;

  const DeviceDescription& description() const override { return settings_.device.description; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override;
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override { listener_ = std::move(listener); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool needs_programs() const override { return false; }
  bool can_be_abandoned() const override { return settings_.device.can_be_abandoned; }

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
    CellId cell = 0;
    std::vector<std::int32_t> tokens;
    std::int32_t drawn = -1;
    std::uint64_t node = 0;  // of a tree
  };

  void check(const Batch& batch);
  void execute(const Batch& batch, std::size_t index, const std::vector<Row>& before, BatchResult& result);
  void run_node(const Batch& batch, std::size_t index, const std::vector<Row>& before, Row& row) const;
  void run_step(const Batch& batch, std::size_t index, const std::vector<Row>& before, Row& row);
  void check_source(const Batch& batch, std::size_t index, const std::vector<Row>& before);
  void report(const Batch& batch, const SequenceSlice& slice, const std::string& what);

  SimCellSettings settings_;
  std::shared_ptr<SimDevices> shared_;
  WorkerId worker_;
  std::function<void()> listener_;
  std::vector<Row> rows_;
  std::deque<Submitted> queue_;  // submitted, not collected
  Ticket num_submitted_ = 0, num_collected_ = 0, num_rung_ = 0;
};

}  // namespace troupe::sim
