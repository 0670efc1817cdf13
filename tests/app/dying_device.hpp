// SPDX-License-Identifier: Apache-2.0
// A device that dies when it is told to.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "gpu/device.hpp"

namespace troupe {

// Works like the device inside it until the n-th batch, which it fails. spares_lone:
// or the first after it that has several sequences in it; one that is alone with
// two dying devices would be taken for the cause.
class DyingDevice final : public Device {
 public:
  DyingDevice(std::unique_ptr<Device> inner, Ticket last, bool spares_lone = false)
      : inner_(std::move(inner)), last_(last), spares_lone_(spares_lone) {}

  const DeviceDescription& description() const override { return inner_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    const auto& slices = batch->slices;
    const bool is_lone = std::all_of(slices.begin(), slices.end(), [&](const SequenceSlice& slice) {
      return slice.sequence == slices.front().sequence;
    });
    const Ticket ticket = inner_->submit(std::move(program), std::move(batch));
    if (spares_lone_ && is_lone && ticket == last_) last_ += 1;
    return ticket;
  }
  Ticket completed() const noexcept override { return inner_->completed(); }
  BatchResult collect(Ticket ticket) override {
    auto result = inner_->collect(ticket);
    if (ticket == last_) result.error = "the test wants this device to die";
    return result;
  }
  void set_listener(std::function<void()> listener) override { inner_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return inner_->poll_delay(); }

 private:
  std::unique_ptr<Device> inner_;
  Ticket last_;
  bool spares_lone_;
};

}  // namespace troupe
