// SPDX-License-Identifier: Apache-2.0
// A device that is only measured: batches go to it without engine and actors.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "app/loading/model_loading.hpp"
#include "gpu/program/program_cache.hpp"
#include "policy/forming/batch_former.hpp"

namespace troupe {

// One thread.
class ProbedDevice {
 public:
  // Makes a device of its own. Throws std::runtime_error if it can't.
  explicit ProbedDevice(const LoadedModel& model);
  ~ProbedDevice();
  ProbedDevice(const ProbedDevice&) = delete;
  ProbedDevice& operator=(const ProbedDevice&) = delete;

  const DeviceDescription& description() const { return device_->description(); }

  Ticket submit(const std::shared_ptr<const Batch>& batch);
  // Sleeps until it is done. Each ticket is waited for once, in order. Throws
  // std::runtime_error if the batch failed.
  BatchResult wait_for(Ticket ticket);
  BatchResult run(Batch batch);

  // A slice of the sequence in the slot of the same number, whose tokens are
  // made up and whose pages follow one another from first_page on.
  void add_slice(Batch& batch, std::uint32_t slot, const SequenceStep& step, PageId first_page) const;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<ProgramCache> programs_;  // null: the device needs none
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace troupe
