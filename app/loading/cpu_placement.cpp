// SPDX-License-Identifier: Apache-2.0
#include "app/loading/cpu_placement.hpp"

#include <algorithm>

#include "app/options/configuration_error.hpp"
#include "telemetry/cpu_list.hpp"

namespace troupe {
namespace {

using Cpus = std::vector<std::int32_t>;

bool holds(const Cpus& cpus, std::int32_t cpu) {
  return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
}

Cpus named(const char* flag, const std::string& text, const Cpus& usable) {
  if (text.empty()) return {};
  Cpus cpus = parse_cpu_list(text).value_or(Cpus{});  // the option's check has seen the text
  for (const std::int32_t cpu : cpus)
    if (!holds(usable, cpu))
      throw ConfigurationError(std::string(flag) + ": CPU " + std::to_string(cpu) +
                               " is none that this process may use");
  return cpus;
}

Cpus rest(const Cpus& usable, const Cpus& taken) {
  Cpus left;
  std::copy_if(usable.begin(), usable.end(), std::back_inserter(left),
               [&](std::int32_t cpu) { return !holds(taken, cpu); });
  return left.empty() ? usable : left;
}

}  // namespace

CpuPlacement place_threads(const std::string& cpus, const std::string& io_cpus, const Cpus& usable) {
  CpuPlacement placement{.compute = named("--cpus", cpus, usable),
                         .others = named("--io-cpus", io_cpus, usable),
                         .is_asked_for = !cpus.empty() || !io_cpus.empty()};
  if (cpus.empty()) placement.compute = rest(usable, placement.others);
  if (io_cpus.empty()) placement.others = cpus.empty() ? usable : rest(usable, placement.compute);
  return placement;
}

CpuPlacement cpu_placement(const Options& options) {
  return place_threads(options.cpus, options.io_cpus, usable_cpus_by_core());
}

void check_cpu_placement(const Options& options) {
  const CpuPlacement placement = cpu_placement(options);
  if (!placement.is_asked_for) return;
  if (!options.pin_threads)
    throw ConfigurationError(
        "--cpus, --io-cpus: expected --pin-threads, by which compute threads keep their CPUs");
  if (options.num_workers > 1)
    throw ConfigurationError("--cpus, --io-cpus: expected one worker, got --workers " +
                             std::to_string(options.num_workers));
  if (options.threads > placement.compute.size())
    throw ConfigurationError("--threads: expected at most " + std::to_string(placement.compute.size()) +
                             ", one for each of --cpus, got " + std::to_string(options.threads));
}

GrantedCpus granted_for_computing(const Options& options) {
  GrantedCpus granted = read_granted_cpus("/", cpu_placement(options).compute);
  if (!options.cpus.empty()) granted.num_cores = granted.num_cpus;  // they are named: a thread each
  return granted;
}

void keep_to_placement(const Options& options) {
  check_cpu_placement(options);
  const CpuPlacement placement = cpu_placement(options);
  if (placement.is_asked_for) keep_thread_to(placement.others);
}

}  // namespace troupe
