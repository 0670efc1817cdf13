// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulated_disk.hpp"

#include <cmath>
#include <utility>

namespace troupe::loadgen {

void SimulatedDisk::submit(Time now, std::vector<DiskTransfer> transfers) {
  bool is_first_read = true;
  for (DiskTransfer& transfer : transfers) {
    if (transfer.direction == DiskTransfer::Direction::kRead) {
      const double fixed = std::exchange(is_first_read, false) ? cost_.fixed : 0;
      reads_.push_back(
          {.transfer = std::move(transfer), .takes = Time(std::llround(fixed + cost_.per_page))});
    } else if (transfer.direction == DiskTransfer::Direction::kWrite) {
      writes_.push_back({.transfer = std::move(transfer), .takes = Time(std::llround(cost_.per_page))});
    }
  }
  if (!under_way_) begin_next(now);
}

std::optional<SimulatedDisk::Time> SimulatedDisk::next_done() const {
  return under_way_ ? std::optional(done_) : std::nullopt;
}

FinishedTransfer SimulatedDisk::complete() {
  FinishedTransfer finished{.transfer = std::move(under_way_->transfer)};
  under_way_.reset();
  begin_next(done_);
  return finished;
}

void SimulatedDisk::begin_next(Time now) {
  auto& orders = reads_.empty() ? writes_ : reads_;
  if (orders.empty()) return;
  under_way_ = std::move(orders.front());
  orders.pop_front();
  done_ = now + under_way_->takes;
}

}  // namespace troupe::loadgen
