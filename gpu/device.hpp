// SPDX-License-Identifier: Apache-2.0
// A device runs programs over batches, in order, on its own time: CPU cores
// (gpu/cpu), a GPU (gpu/cuda), nothing (gpu/noop) or a simulation (tests).
// It owns weights, KV pages, the arena and one slot of state a sequence.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/program/batch.hpp"
#include "gpu/program/cell.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

using Ticket = std::uint64_t;  // 1, 2, 3 … in order of submission

struct DeviceDescription {
  std::string name;             // "cpu (2 threads, avx512-bf16)"
  std::uint32_t page_size = 0;  // tokens a KV page
  std::uint32_t num_pages = 0;
  // The host tier's, which keep what is in them from one device to the next.
  std::uint32_t num_host_pages = 0;
  std::uint32_t num_slots = 0;  // sequences that may run at once
  std::uint32_t max_batch_tokens = 0;
  std::uint32_t context_length = 0;  // longest sequence
  std::uint32_t vocabulary_size = 0;
  // That the slices of a batch list together; enough for any sequence alone.
  std::uint32_t max_penalized_tokens = std::numeric_limits<std::uint32_t>::max();
  std::vector<CellType> cells = {CellType{}};  // cells of its network: as a rule a decoder's
  bool waits_for_masks = false;                // batches may name masks that are not there yet
  bool hands_out_states = false;               // of slices that want it (SequenceSlice::wants_state)
};

// All methods are called by the one worker that owns the device, one at a time and on
// any thread, except that the listener is called by a thread of the device.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceDescription& description() const = 0;

  // Queues a batch behind the ones before it and returns at once. The program
  // must fit the batch; it is kept alive until the batch is done. It may be null
  // if the batch has no slices, or the device needs no programs.
  virtual Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) = 0;

  // The signal word: the newest ticket that is done (work completes in order).
  virtual Ticket completed() const noexcept = 0;

  // The result of a completed ticket; each is collected once, in order.
  // A batch that failed says so in BatchResult::error.
  virtual BatchResult collect(Ticket ticket) = 0;

  // Called (from any thread, never blocking) after `completed` has moved, so
  // that an idle worker need not poll. Devices that must be polled ignore it.
  virtual void set_listener(std::function<void()> listener) = 0;

  // How long the worker should wait before it looks at `completed` again while
  // work is in flight; nullopt: the listener tells.
  virtual std::optional<std::chrono::nanoseconds> poll_delay() const = 0;

  // Why it is of no more use, whatever is submitted; empty: it is. The listener is
  // called when that changes.
  virtual std::string fault() const { return {}; }

  // False: submit() takes no program. A device in another process has its own.
  virtual bool needs_programs() const { return true; }

  // True: submit() and collect() take microseconds, whatever is in flight, so that a thread with other
  // work may call them.
  virtual bool returns_at_once() const { return false; }

  // True if its destructor returns although the device hangs: it is in another
  // process, which can be killed.
  virtual bool can_be_abandoned() const { return false; }
};

}  // namespace troupe
