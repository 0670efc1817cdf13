// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_disk.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::sim {

SimDisk::SimDisk(SimDiskSettings settings, std::shared_ptr<SimDevices> devices, After after)
    : settings_(std::move(settings)),
      devices_(std::move(devices)),
      after_(std::move(after)),
      random_(settings_.seed) {
  settings_.file->num_opened += 1;
}

std::uint32_t SimDisk::num_pages() const { return static_cast<std::uint32_t>(settings_.file->pages.size()); }

std::vector<StoredPage> SimDisk::take_stored() {
  std::vector<StoredPage> stored;
  for (std::uint32_t page = 0; page < num_pages(); ++page)
    if (const auto& there = settings_.file->pages[page])
      stored.push_back({.disk_page = page, .identity = there->identity, .age = {}});
  return stored;
}

void SimDisk::submit(std::vector<DiskTransfer> transfers) {
  for (const DiskTransfer& transfer : transfers) begin(transfer);
}

void SimDisk::begin(const DiskTransfer& transfer) {
  if (transfer.direction == DiskTransfer::Direction::kErase) {
    settings_.file->pages.at(transfer.disk_page).reset();
    return;
  }
  if (transfer.direction == DiskTransfer::Direction::kRelease) {
    settings_.file->pages.at(transfer.disk_page).reset();
    after_(std::chrono::nanoseconds(0), [this, transfer] {
      done_.push_back({.transfer = transfer, .outcome = TransferOutcome::kDone});
      if (listener_) listener_();
    });
    return;
  }
  // While it is written, neither its old nor its new contents are there.
  if (transfer.direction == DiskTransfer::Direction::kWrite)
    settings_.file->pages.at(transfer.disk_page).reset();
  if (transfer.direction == DiskTransfer::Direction::kRead) {
    host_page(transfer) = {};
    devices_->num_reads_under_way += 1;
  }
  const auto time =
      std::chrono::microseconds(random_() % static_cast<std::uint64_t>(settings_.longest.count() + 1));
  after_(time,
         [this, transfer, generation = host_page(transfer).generation] { finish(transfer, generation); });
}

void SimDisk::finish(const DiskTransfer& transfer, std::uint64_t generation_before) {
  if (transfer.direction == DiskTransfer::Direction::kRead) devices_->num_reads_under_way -= 1;
  if (host_page(transfer).generation != generation_before)
    devices_->violations.push_back("host page " + std::to_string(transfer.host_page) +
                                   " has changed while the disk had it");
  done_.push_back({.transfer = transfer, .outcome = carry_out(transfer)});
  if (listener_) listener_();
}

TransferOutcome SimDisk::carry_out(const DiskTransfer& transfer) {
  auto& on_disk = settings_.file->pages.at(transfer.disk_page);
  if (chance(settings_.percent_failed)) return TransferOutcome::kFailed;
  if (transfer.direction == DiskTransfer::Direction::kWrite) {
    if (chance(settings_.percent_without_room)) return TransferOutcome::kNoRoom;
    const auto& on_host = host_page(transfer);
    if (on_host.generation != transfer.identity.generation) return TransferOutcome::kDamaged;
    on_disk = {.identity = transfer.identity, .tokens = on_host.tokens};
    return TransferOutcome::kDone;
  }
  if (!on_disk || on_disk->identity.generation != transfer.identity.generation) {
    devices_->violations.push_back("disk page " + std::to_string(transfer.disk_page) +
                                   " is not what it is said to be");
    return TransferOutcome::kDamaged;
  }
  if (chance(settings_.percent_damaged)) return TransferOutcome::kDamaged;
  host_page(transfer) = {.generation = on_disk->identity.generation, .tokens = on_disk->tokens};
  return TransferOutcome::kDone;
}

std::vector<DiskTier::Done> SimDisk::take_done() { return std::exchange(done_, {}); }

SimDevices::HostPage& SimDisk::host_page(const DiskTransfer& transfer) {
  auto& pages = devices_->host_pages;
  if (pages.size() <= transfer.host_page) pages.resize(transfer.host_page + 1);
  return pages[transfer.host_page];
}

}  // namespace troupe::sim
