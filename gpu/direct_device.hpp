// SPDX-License-Identifier: Apache-2.0
// A device without engine and actors: batches go to it with their programs, and the
// caller waits for their results. Costs are measured, benchmarks and tests run, on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpu/device.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

// A slice of the sequence in the slot of the same number. Its tokens are made up, its
// pages follow one another.
struct MadeUpSlice {
  SlotId slot = 0;
  std::uint32_t num_tokens = 1;
  std::uint32_t context_length = 0;
  bool input_from_slot = false;
  bool sample = false;
  PageId first_page = 0;
};

// One thread.
class DirectDevice {
 public:
  enum class Waiting : std::uint8_t {
    kSleep,  // until the device rings: polling takes a core from a network on CPU cores
    kPoll,   // nothing is lost to a thread that wakes up
  };

  // programs: null if the device needs none. Both outlive this, which is the device's listener.
  DirectDevice(Device& device, ProgramCache* programs, Waiting waiting = Waiting::kSleep);
  ~DirectDevice();
  DirectDevice(const DirectDevice&) = delete;
  DirectDevice& operator=(const DirectDevice&) = delete;

  const DeviceDescription& description() const { return device_.description(); }

  Ticket submit(const std::shared_ptr<const Batch>& batch);
  // Each ticket is waited for once, in order. Throws std::runtime_error if the batch failed.
  BatchResult wait_for(Ticket ticket);
  BatchResult run(Batch batch);

  void add_slice(Batch& batch, const MadeUpSlice& made_up) const;

 private:
  Device& device_;
  ProgramCache* programs_;
  Waiting waiting_;
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace troupe
