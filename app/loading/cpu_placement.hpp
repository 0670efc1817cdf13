// SPDX-License-Identifier: Apache-2.0
// The CPUs of compute threads (--cpus) and those of all other threads (--io-cpus), so that
// what is computed and what is read and written do not take each other's cores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/loading/hardware.hpp"
#include "app/options/options.hpp"

namespace troupe {

struct CpuPlacement {
  std::vector<std::int32_t> compute, others;
  bool is_asked_for = false;  // false: both are all that are usable
};

// Whichever list is empty gets what the other leaves, or all where that leaves none. Throws
// ConfigurationError: a CPU is not usable.
CpuPlacement place_threads(const std::string& cpus, const std::string& io_cpus,
                           const std::vector<std::int32_t>& usable);
CpuPlacement cpu_placement(const Options& options);

// Throws ConfigurationError: with --cpus or --io-cpus, each compute thread of one worker has a CPU.
void check_cpu_placement(const Options& options);

// The CPUs of compute threads, and the share of them that control groups grant.
GrantedCpus granted_for_computing(const Options& options);

// Checks, and keeps the calling thread and those that it starts to the CPUs of other threads. Compute
// threads are bound to theirs when they are made.
void keep_to_placement(const Options& options);

}  // namespace troupe
