// SPDX-License-Identifier: Apache-2.0
// A device that is only measured: how long its batches take, two in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "app/loading/model_loading.hpp"
#include "gpu/direct_device.hpp"
#include "gpu/program/program_cache.hpp"
#include "policy/costs/cost_profile.hpp"
#include "policy/forming/batch_former.hpp"

namespace troupe {

// One thread.
class ProbedDevice {
 public:
  // Makes a device of its own. Throws std::runtime_error if it can't.
  explicit ProbedDevice(const LoadedModel& model);

  const DeviceDescription& description() const { return device_->description(); }

  // As DirectDevice has them.
  Ticket submit(const std::shared_ptr<const Batch>& batch) { return direct_.submit(batch); }
  BatchResult wait_for(Ticket ticket) { return direct_.wait_for(ticket); }
  BatchResult run(Batch batch) { return direct_.run(std::move(batch)); }

  // One sample a batch: the median over rounds, in which all batches take turns, two in flight.
  // Says how far it has come after each round, the first of which warms up.
  std::vector<CostSample> measure(std::span<const std::shared_ptr<const Batch>> batches,
                                  std::uint32_t num_rounds,
                                  const std::function<void(std::uint32_t)>& on_round);

  // A slice of the sequence in the slot of the same number, whose tokens are
  // made up and whose pages follow one another from first_page on.
  void add_slice(Batch& batch, std::uint32_t slot, const SequenceStep& step, PageId first_page) const;

 private:
  double mean_nanoseconds(const std::shared_ptr<const Batch>& batch);

  std::unique_ptr<Device> device_;
  std::unique_ptr<ProgramCache> programs_;
  DirectDevice direct_;
};

IterationShape shape_of(const Batch& batch);

}  // namespace troupe
