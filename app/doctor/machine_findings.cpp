// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "app/descriptor_limit.hpp"
#include "app/doctor/findings.hpp"
#include "app/loading/backend_choice.hpp"
#include "app/loading/cpu_placement.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cuda_library.hpp"
#include "http/limits.hpp"

namespace troupe {
namespace {

Finding cpu_finding() {
  Finding finding{.about = "CPU", .text = cpu_name() + ", kernels for " + std::string(name_of(best_isa()))};
  if (best_isa() != Isa::kPortable) return finding;
  finding.grade = Grade::kWarning;
  finding.text += ": neither AVX2 nor AVX-512";
  finding.advice = "expect a few tokens a second; in a virtual machine, pass the host's CPU through";
  return finding;
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

Finding memory_finding(const GrantedCpus& granted) {
  std::string text = shown_bytes(available_memory_bytes()) + " available";
  if (granted.memory_limit > 0) text += ", control groups grant " + shown_bytes(granted.memory_limit);
  return {.about = "memory", .text = text};
}

// Nothing of ours is locked into memory, but a GPU's driver may lock what it reads.
Finding locked_memory_finding() {
  rlimit locked{};
  const bool is_known = ::getrlimit(RLIMIT_MEMLOCK, &locked) == 0;
  const bool is_unlimited = is_known && locked.rlim_cur == RLIM_INFINITY;
  return {
      .about = "locked memory",
      .text = is_unlimited ? "no limit" : shown_bytes(locked.rlim_cur) + " at most, which is never needed"};
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

// A GPU that was asked for by name has to be there.
Finding gpu_finding(const Options& options) {
  Finding finding{.about = "GPU"};
  if (options.device == "cpu" || options.device == "noop") {
    finding.text = "none is asked for: --device " + options.device;
    return finding;
  }
  const bool is_asked_for = options.device != "auto";
  const std::string found = cuda_in_words(options);
  finding.text = found;
  if (!driver_version().empty()) finding.text += "; " + driver_version();
  if (!found.starts_with("no: ")) return finding;
  if (!has_gpu_driver() && !is_asked_for) {
    finding.text = "no driver is here; the model runs on the CPU";
    return finding;
  }
  finding.grade = is_asked_for ? Grade::kProblem : Grade::kWarning;
  finding.advice =
      has_gpu_driver()
          ? "build the CUDA backend (docs/dependencies.md) and name it by --cuda-library; or --device cpu"
          : "install NVIDIA's driver, in a container pass the GPU through; or --device cpu";
  return finding;
}

std::uint64_t compute_threads(const Options& options) {
  return options.threads > 0 ? options.threads : default_threads(granted_for_computing(options));
}

}  // namespace

Finding core_finding(const GrantedCpus& granted, std::uint64_t num_threads) {
  Finding finding{.about = "cores", .text = counted(granted.num_cpus, "CPU", "CPUs")};
  if (granted.num_cores < granted.num_cpus)
    finding.text += " on " + counted(granted.num_cores, "core", "cores");
  if (granted.num_nodes > 1) finding.text += " of " + std::to_string(granted.num_nodes) + " memory nodes";
  if (granted.quota > 0) {
    char quota[64];
    std::snprintf(quota, sizeof quota, ", of which control groups grant the time of %.4g", granted.quota);
    finding.text += quota;
  }
  finding.text += "; " + counted(num_threads, "compute thread", "compute threads");
  // Threads wait for each other in every step, so the slowest decides.
  const bool exceeds_quota =
      granted.quota > 0 && static_cast<double>(num_threads) > std::max(1.0, granted.quota);
  if (exceeds_quota || num_threads > granted.num_cpus) {
    const double granted_cpus = exceeds_quota ? std::max(1.0, std::floor(granted.quota)) : granted.num_cpus;
    finding.grade = Grade::kWarning;
    finding.advice = "--threads " + std::to_string(static_cast<std::uint64_t>(granted_cpus));
  } else if (num_threads > granted.num_cores) {
    finding.grade = Grade::kWarning;
    finding.advice =
        "two threads on a core share its units: try --threads " + std::to_string(granted.num_cores);
  } else if (granted.num_nodes > 1) {
    finding.grade = Grade::kWarning;
    finding.advice = "bind the server to one node: numactl --cpunodebind=0 --membind=0";
  }
  return finding;
}

Finding descriptor_finding(std::uint64_t limit, std::uint64_t wanted) {
  Finding finding{.about = "open files", .text = std::to_string(limit) + " at most"};
  if (limit >= wanted) return finding;
  finding.grade = Grade::kWarning;
  finding.text += ", less than the " + std::to_string(wanted) + " of as many connections as are taken";
  finding.advice = "LimitNOFILE=" + std::to_string(wanted) + " in the unit, or ulimit -Hn";
  return finding;
}

Findings machine_findings(const Options& options) {
  const GrantedCpus granted = granted_cpus();
  const Limits limits;
  const std::uint64_t wanted = limits.max_connections * 100 / limits.max_descriptor_percent + 1;
  return {cpu_finding(),           core_finding(granted, compute_threads(options)),
          memory_finding(granted), descriptor_finding(descriptor_limit(), wanted),
          locked_memory_finding(), gpu_finding(options)};
}

}  // namespace troupe
