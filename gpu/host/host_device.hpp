// SPDX-License-Identifier: Apache-2.0
// The CPU cores as a device. One executor thread (compute thread 0) takes
// batches from a queue in order and runs their programs, while a copy thread
// makes their moves; a batch whose program and moves are done moves the signal
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
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "gpu/device.hpp"
#include "gpu/host/batch_copies.hpp"
#include "gpu/host/copy_thread.hpp"
#include "gpu/host/host_model.hpp"
#include "gpu/host/link_clock.hpp"
#include "gpu/host/program_runner.hpp"
#include "gpu/host/thread_pool.hpp"
#include "gpu/host_pages.hpp"

namespace troupe {

struct HostDeviceOptions {
  std::shared_ptr<HostPages> host_pages = {};  // shared with the devices that follow
  LinkSettings link = {};                      // between device and host pages
  LogitsHook on_logits = {};                   // for tests, as is
  bool poison_memory = false;                  // fills KV pages and temporaries with NaN first
};

// Threads as in Device; the destructor lets the running operator and the layer
// that is copied finish, abandons queued batches and never calls the listener
// again. What was being stored is not in the host tier then.
class HostDevice final : public Device {
 public:
  explicit HostDevice(std::shared_ptr<const HostModel> model, const HostDeviceOptions& options = {});
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  const DeviceDescription& description() const override { return description_; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override { return completed_.load(std::memory_order_acquire); }
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override;
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }

 private:
  struct Submission {
    std::shared_ptr<const Program> program;
    std::shared_ptr<const Batch> batch;
    std::shared_ptr<BatchCopies> copies;  // null: no moves
  };

  void execute();
  bool wait_for_submission(Submission& submission);
  BatchResult run(const Submission& submission);
  void publish(BatchResult result);

  std::shared_ptr<const HostModel> model_;
  DeviceDescription description_;
  ThreadPool threads_;
  ProgramRunner runner_;  // executor only, but for its mover
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
