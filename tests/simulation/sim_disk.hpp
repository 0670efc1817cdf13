// SPDX-License-Identifier: Apache-2.0
// A disk in virtual time: transfers take as long as a seed decides and are done
// in any order, fail, or find damage. What is on it outlives a world. A host page
// that changes while a transfer has it is a violation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "actors/disk_tier.hpp"
#include "tests/simulation/sim_device.hpp"

namespace troupe::sim {

// What is left when a process is killed.
struct SimFile {
  struct Page {
    PageIdentity identity;
    std::vector<std::int32_t> tokens;
  };
  std::vector<std::optional<Page>> pages;
  std::uint64_t num_opened = 0;
};

struct SimDiskSettings {
  std::shared_ptr<SimFile> file;  // null: no disk
  std::uint64_t seed = 0;
  std::chrono::microseconds longest{2000};
  std::uint32_t num_pages_lacking = 0;  // as the file system has it all the time
  unsigned percent_failed = 0, percent_damaged = 0, percent_without_room = 0;
};

class SimDisk final : public DiskTier {
 public:
  // after: does something later in virtual time.
  using After = std::function<void(std::chrono::nanoseconds, std::function<void()>)>;

  SimDisk(SimDiskSettings settings, std::shared_ptr<SimDevices> devices, After after);

  std::uint32_t num_pages() const override;
  PageSecret secret() const override { return {.k0 = 11, .k1 = 12}; }
  std::uint64_t first_generation() const override { return settings_.file->num_opened << 40; }
  std::vector<StoredPage> take_stored() override;
  std::uint32_t num_pages_lacking() const override { return settings_.num_pages_lacking; }
  void submit(std::vector<DiskTransfer> transfers) override;
  std::vector<Done> take_done() override;
  void set_listener(std::function<void()> listener) override { listener_ = std::move(listener); }

 private:
  void begin(const DiskTransfer& transfer);
  void finish(const DiskTransfer& transfer, std::uint64_t generation_before);
  TransferOutcome carry_out(const DiskTransfer& transfer);
  SimDevices::HostPage& host_page(const DiskTransfer& transfer);
  bool chance(unsigned percent) { return random_() % 100 < percent; }

  SimDiskSettings settings_;
  std::shared_ptr<SimDevices> devices_;
  After after_;
  std::mt19937_64 random_;
  std::vector<Done> done_;
  std::function<void()> listener_;
};

}  // namespace troupe::sim
