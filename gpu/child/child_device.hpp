// SPDX-License-Identifier: Apache-2.0
// A device in a worker process. Batches go to it as messages, results come back
// on a thread of this object, which then rings the listener. When the process
// dies, hangs up or says what can't be, every batch that has no result fails
// with the reason; the device is of no use then.
//
//   submit ──► socket ──► worker process ──► socket ──► io thread: results_,
//          └► unsent_ ─────────▲ (io thread)            completed_, listener()
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/child/worker.hpp"
#include "gpu/device.hpp"
#include "gpu/pages/host_pages.hpp"

namespace troupe::child {

// Threads as in Device.
class ChildDevice final : public Device {
 public:
  // Gets the worker back if all its batches were done well, so that the next
  // device need not load the weights again.
  using GiveBack = std::function<void(Worker)>;

  // The worker has made its device already. The host pages are kept mapped as
  // long as it may write to them.
  ChildDevice(Worker worker, DeviceDescription description, std::shared_ptr<HostPages> host_pages,
              GiveBack give_back);
  // A worker with batches in flight, or one that failed, is killed. Returns when
  // it has gone or was given back.
  ~ChildDevice() override;
  ChildDevice(const ChildDevice&) = delete;
  ChildDevice& operator=(const ChildDevice&) = delete;

  const DeviceDescription& description() const override { return description_; }
  // The program is ignored: the worker has its own.
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override { return completed_.load(std::memory_order_acquire); }
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override;
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool returns_at_once() const override { return true; }
  std::string fault() const override;
  bool needs_programs() const override { return false; }
  bool can_be_abandoned() const override { return true; }

 private:
  // Counts that a result must have, unless the batch failed.
  struct Expected {
    std::size_t num_slices = 0;
    std::size_t num_floats = 0;  // of all vectors
  };

  void exchange();
  Expected expected_of(const Batch& batch) const;
  void check_answer(const BatchAnswer& answer) const;
  void exchange_until_stopped();
  void wait_for_events();
  void send_rest();
  void take_answers();
  void take_answer(BatchAnswer answer);
  void fail(const std::string& reason);
  void ring();
  void wake();
  bool end_well();

  DeviceDescription description_;
  std::shared_ptr<HostPages> host_pages_;
  // The worker's connection: sent to under mutex_, read by the io thread.
  Worker worker_;
  GiveBack give_back_;
  FileDescriptor wake_;  // an event: there is something to send, or to stop for

  mutable std::mutex mutex_;  // guards what follows, and the moves of completed_
  std::vector<std::byte> unsent_;
  std::deque<Expected> expected_;  // of batches without a result, in order
  std::deque<BatchResult> results_;
  Ticket submitted_ = 0;
  bool has_failed_ = false;  // a batch, or all of it
  std::string fault_;        // why nothing comes any more; empty: it does

  std::atomic<Ticket> completed_{0};
  std::atomic<bool> stop_{false};
  std::mutex listener_mutex_;  // held while the listener is called
  std::function<void()> listener_;
  std::thread io_thread_;
};

}  // namespace troupe::child
