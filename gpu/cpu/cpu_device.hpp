// SPDX-License-Identifier: Apache-2.0
// The CPU cores as a device. One executor thread (compute thread 0) takes
// batches from a queue in order and runs their programs, each when it is this
// device's turn on the cores, while a copy thread
// makes their copies; a batch whose program and copies are done moves the signal
// word and then calls the listener. A batch that fails says so in its result
// and harms no other.
//
//   submit ─┬► queue ──► executor: run, push result, completed_.store(release),
//           │              ▲│                listener()
//           │  layers come ││ batch has ended
//           └► copy thread ┘▼
//   collect ◄── results
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "gpu/cpu/batch_copies.hpp"
#include "gpu/cpu/copy_thread.hpp"
#include "gpu/cpu/cpu_cores.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/program_runner.hpp"
#include "gpu/device.hpp"
#include "gpu/pages/host_pages.hpp"
#include "gpu/pages/link_clock.hpp"
#include "gpu/program/mask_slot.hpp"

namespace troupe {

struct CpuDeviceOptions {
  std::shared_ptr<CorePool> cores = {};        // with other devices; null: its own
  std::shared_ptr<HostPages> host_pages = {};  // shared with the devices that follow
  LinkSettings link = {};                      // between device and host pages
  std::chrono::nanoseconds longest_mask_wait = MaskSlot::kLongestWait;
  LogitsHook on_logits = {};   // for tests, as is
  bool poison_memory = false;  // fills KV pages and temporaries with NaN first
};

// Threads as in Device; the destructor lets the running operator and the layer
// that is copied finish, abandons queued batches and never calls the listener
// again. Pages that were being stored are not in the host tier then.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::shared_ptr<const CpuModel> model, const CpuDeviceOptions& options = {});
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  const DeviceDescription& description() const override { return description_; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override { return completed_.load(std::memory_order_acquire); }
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override;
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }
  bool returns_at_once() const override { return true; }

 private:
  struct Submission {
    std::shared_ptr<const Program> program;
    std::shared_ptr<const Batch> batch;
    std::shared_ptr<BatchCopies> copies;  // null: no copies
  };

  void execute();
  bool wait_for_submission(Submission& submission);
  BatchResult run(const Submission& submission);
  void publish(BatchResult result);

  std::shared_ptr<const CpuModel> model_;
  DeviceDescription description_;
  std::shared_ptr<CorePool> cores_;
  ProgramRunner runner_;  // executor only, but for its copier
  CopyThread copy_thread_;

  std::mutex queue_mutex_;  // guards queue_ and results_
  std::condition_variable queue_filled_;
  std::deque<Submission> queue_;
  std::deque<BatchResult> results_;
  Ticket submitted_ = 0;            // caller only
  Ticket collected_ = 0;            // caller only
  std::atomic<Ticket> offered_{0};  // submitted_, for the executor to look at without the lock
  std::atomic<Ticket> completed_{0};
  std::atomic<bool> stop_{false};

  std::mutex listener_mutex_;  // held while the listener is called
  std::function<void()> listener_;
  std::thread executor_;
};

}  // namespace troupe
