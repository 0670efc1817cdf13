// SPDX-License-Identifier: Apache-2.0
// The machine: CPU, cores as they are granted, memory, limits, GPU.
#pragma once

#include <cstdint>

#include "app/doctor/finding.hpp"
#include "app/loading/hardware.hpp"
#include "app/options/options.hpp"

namespace troupe {

Findings machine_findings(const Options& options);

// num_threads: that compute.
Finding core_finding(const GrantedCpus& granted, std::uint64_t num_threads);
// limit: of open files. wanted: connections that the server would take.
Finding descriptor_finding(std::uint64_t limit, std::uint64_t wanted);

}  // namespace troupe
