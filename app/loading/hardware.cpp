// SPDX-License-Identifier: Apache-2.0
#include "app/loading/hardware.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "gpu/control_groups.hpp"
#include "telemetry/cpu_list.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "0-3,8": any of these CPUs is in it.
bool has_any(const std::string& list, const std::vector<std::int32_t>& cpus) {
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::istringstream text(range);
    std::int32_t first = 0, last = 0;
    char dash = 0;
    if (!(text >> first)) continue;
    if (!(text >> dash >> last)) last = first;
    const bool is_in =
        std::any_of(cpus.begin(), cpus.end(), [&](std::int32_t cpu) { return cpu >= first && cpu <= last; });
    if (is_in) return true;
  }
  return false;
}

// A name that CPUs of one core have in common.
std::string core_of(const fs::path& root, std::int32_t cpu) {
  const auto siblings = first_line(root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) /
                                   "topology/thread_siblings_list");
  return siblings.empty() ? std::to_string(cpu) : siblings;
}

std::uint32_t count_cores(const fs::path& root, const std::vector<std::int32_t>& cpus) {
  std::set<std::string> cores;
  for (const auto cpu : cpus) cores.insert(core_of(root, cpu));
  return static_cast<std::uint32_t>(cores.size());
}

std::uint32_t count_nodes(const fs::path& root, const std::vector<std::int32_t>& cpus) {
  std::uint32_t num_nodes = 0;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", missing))
    if (has_any(first_line(entry.path() / "cpulist"), cpus)) ++num_nodes;
  return std::max(num_nodes, 1U);
}

// "max" and -1 are no bound.
double quota_of(const fs::path& group) {
  std::istringstream text(first_line(group / "cpu.max"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period)) {
    std::istringstream old_quota(first_line(group / "cpu.cfs_quota_us"));
    std::istringstream old_period(first_line(group / "cpu.cfs_period_us"));
    if (!(old_quota >> quota && old_period >> period)) return 0;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The smaller of two limits; 0 is no limit.
template <typename Number>
Number tighter(Number one, Number other) {
  if (one == Number{} || other == Number{}) return std::max(one, other);
  return std::min(one, other);
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::vector<std::int32_t> usable_cpus() {
  static const std::vector<std::int32_t> cpus = cpus_of_thread();
  return cpus;
}

std::vector<std::int32_t> cpus_by_core(const fs::path& root, const std::vector<std::int32_t>& cpus) {
  std::vector<std::int32_t> order, others;
  std::set<std::string> cores;
  for (const auto cpu : cpus) (cores.insert(core_of(root, cpu)).second ? order : others).push_back(cpu);
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

std::vector<std::int32_t> usable_cpus_by_core() { return cpus_by_core("/", usable_cpus()); }

GrantedCpus read_granted_cpus(const fs::path& root, const std::vector<std::int32_t>& cpus) {
  GrantedCpus granted{.num_cpus = static_cast<std::uint32_t>(cpus.size()),
                      .num_cores = count_cores(root, cpus),
                      .num_nodes = count_nodes(root, cpus)};
  for (const auto& group : control_groups(root, "cpu"))
    granted.quota = tighter(granted.quota, quota_of(group));
  granted.memory_limit = memory_granted(root).limit_bytes;
  return granted;
}

GrantedCpus granted_cpus() { return read_granted_cpus("/", usable_cpus()); }

bool has_cpu_quota(const GrantedCpus& granted) {
  return granted.quota > 0 && granted.quota < granted.num_cpus;
}

std::uint32_t default_threads(const GrantedCpus& granted) {
  const std::uint32_t num_cores = std::max(granted.num_cores, 1U);
  if (!has_cpu_quota(granted)) return num_cores;
  return std::clamp(static_cast<std::uint32_t>(granted.quota), 1U, num_cores);
}

}  // namespace troupe
