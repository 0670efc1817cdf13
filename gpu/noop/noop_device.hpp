// SPDX-License-Identifier: Apache-2.0
// A device whose network costs nothing: the next token is a simple function of
// the slice. With it the engine itself is measured and tested: actors, HTTP,
// batching, everything but compute. Vectors of cells that give some are (1, 0, 0, …).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/program/mask_slot.hpp"

namespace troupe {

struct NoopDeviceSettings {
  DeviceDescription description;  // name may be empty; vocabulary_size >= 1
  // Tokens run through [first_token, first_token + num_tokens), so that a
  // tokenizer finds printable text in them.
  std::int32_t first_token = 0;
  std::int32_t num_tokens = 1;
  // Time that a batch pretends to take: a fixed time plus a time a query token.
  std::chrono::nanoseconds iteration_time{0};
  std::chrono::nanoseconds token_time{0};
  // Complete inside submit, on the caller's thread, the listener included;
  // otherwise on a thread of the device. Costs must be zero then, and it does not wait for masks.
  bool immediate = false;
  std::chrono::nanoseconds longest_mask_wait = MaskSlot::kLongestWait;
};

// The token after `position` tokens of a sequence; ids in `suppressed` are
// stepped over if any other is left.
std::int32_t noop_token(const NoopDeviceSettings& settings, const SequenceSlice& slice,
                        std::span<const std::uint32_t> allowed);

// When iterations end that take turns: each begins when the one before has ended, or its batch came,
// whenever anybody looks.
class IterationEnds {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint next(TimePoint submitted, std::chrono::nanoseconds cost) {
    last_ = std::max(last_, submitted) + cost;
    return last_;
  }

 private:
  TimePoint last_;
};

// Threads as in Device.
class NoopDevice final : public Device {
 public:
  explicit NoopDevice(NoopDeviceSettings settings);
  ~NoopDevice() override;
  NoopDevice(const NoopDevice&) = delete;
  NoopDevice& operator=(const NoopDevice&) = delete;

  const DeviceDescription& description() const override { return settings_.description; }
  // The program is ignored and may be null.
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override { return completed_.load(std::memory_order_acquire); }
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override;
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool returns_at_once() const override { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Submitted {
    std::shared_ptr<const Batch> batch;
    Clock::time_point submitted;
  };

  void execute();
  void complete(const Batch& batch, std::chrono::nanoseconds cost);
  void draw(const Batch& batch, BatchResult& result);

  NoopDeviceSettings settings_;
  std::mutex mutex_;  // guards queue_, results_, stop_
  // Two, so that a batch that comes during an iteration wakes no thread.
  std::condition_variable is_submitted_, is_stopped_;
  std::deque<Submitted> queue_;
  std::deque<BatchResult> results_;
  bool stop_ = false;
  Ticket submitted_ = 0;  // caller only
  Ticket collected_ = 0;  // caller only
  std::atomic<Ticket> completed_{0};
  std::mutex listener_mutex_;  // held while the listener is called
  std::function<void()> listener_;
  std::vector<bool> has_no_token_;  // slots, as their last draw left them; by the thread that completes
  std::thread executor_;
};

}  // namespace troupe
