// SPDX-License-Identifier: Apache-2.0
// Asks the service manager for more time while models load, which may take longer than it
// grants to a start: as long as this process gets on, and no longer.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "app/service_manager.hpp"

namespace troupe {

// Use of this process so far.
struct ProcessUse {
  std::chrono::microseconds cpu_time{0};
  std::uint64_t num_blocks_read = 0;  // from disks
  std::uint64_t num_faults_read = 0;  // of mapped files
};
ProcessUse process_use();

// Something was computed or read in between, more than a thread does that merely looks.
bool has_got_on(const ProcessUse& before, const ProcessUse& now);

// While it lives.
class StartExtension {
 public:
  // manager: outlives this.
  explicit StartExtension(const ServiceManager& manager);

 private:
  std::jthread thread_;
};

}  // namespace troupe
