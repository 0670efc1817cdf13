// SPDX-License-Identifier: Apache-2.0
// The CPUs of this machine, and what of them this process is granted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

// "AMD EPYC 9654", or "unknown processor".
std::string cpu_name();

// The CPUs this process may use, in order: as it was when they were first asked for, before threads were
// kept to some of them.
std::vector<std::int32_t> usable_cpus();

// One CPU of each core, then the others, which share their cores' units with these. root: of /sys.
std::vector<std::int32_t> cpus_by_core(const std::filesystem::path& root,
                                       const std::vector<std::int32_t>& cpus);
// usable_cpus() in this order.
std::vector<std::int32_t> usable_cpus_by_core();

struct GrantedCpus {
  std::uint32_t num_cpus = 0;      // usable ones: hardware threads
  std::uint32_t num_cores = 0;     // of these; less than num_cpus where cores run two threads
  std::uint32_t num_nodes = 1;     // of memory (NUMA) that these are of
  double quota = 0;                // CPUs' time that control groups grant; 0: no bound
  std::uint64_t memory_limit = 0;  // bytes that they grant; 0: no bound

  bool operator==(const GrantedCpus&) const = default;
};

// Control groups may be of version 1 or 2. root: of /sys and /proc. Files that are missing tell of no
// bound, and of a core a CPU.
GrantedCpus read_granted_cpus(const std::filesystem::path& root, const std::vector<std::int32_t>& cpus);

// That of this process, now.
GrantedCpus granted_cpus();

// Control groups grant the time of fewer CPUs than may be used.
bool has_cpu_quota(const GrantedCpus& granted);
// Compute threads of a server that was told no number: one a core, but no more than CPUs whose time is
// granted. Threads wait for each other in every step, so one that is throttled, or shares a core's units
// with another, stops all.
std::uint32_t default_threads(const GrantedCpus& granted);

}  // namespace troupe
