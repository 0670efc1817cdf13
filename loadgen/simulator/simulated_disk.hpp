// SPDX-License-Identifier: Apache-2.0
// The disk of a simulated server: one transfer at a time, reads before writes, as the
// disk's thread of a live server does them (actors/disk_thread.hpp). Each takes the time
// that the profile says; nothing waits for erasures and releases, which are left out.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "engine/event.hpp"
#include "policy/pages/page_transfer.hpp"
#include "policy/pages/restore_choice.hpp"

namespace troupe::loadgen {

class SimulatedDisk {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the simulation

  // cost: of a page in either direction, and once for reads that are asked for together.
  explicit SimulatedDisk(const LoadCost& cost) : cost_(cost) {}

  void submit(Time now, std::vector<DiskTransfer> transfers);
  // When the transfer under way is done; nullopt: there is none.
  std::optional<Time> next_done() const;
  FinishedTransfer complete();  // at next_done()

 private:
  struct Order {
    DiskTransfer transfer;
    Time takes{0};
  };

  void begin_next(Time now);

  LoadCost cost_;
  std::deque<Order> reads_, writes_;
  std::optional<Order> under_way_;
  Time done_{0};  // of the one under way
};

}  // namespace troupe::loadgen
