// SPDX-License-Identifier: Apache-2.0
// `troupe doctor`: what would keep `troupe serve` with the same options from working well on this
// machine, found by what serve itself asks before it serves. Each part of it finds its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/loading/hardware.hpp"
#include "app/options/options.hpp"

namespace troupe {

// kWarning: the server runs, but slower or with less than it could. kProblem: it does not start.
enum class Grade : std::uint8_t { kOk, kWarning, kProblem };

struct Finding {
  Grade grade = Grade::kOk;
  std::string about = {};   // "memory"
  std::string text = {};    // found, or wrong
  std::string advice = {};  // to be done; empty: nothing

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

// The machine: CPU, cores as they are granted, memory, limits, GPU.
Findings machine_findings(const Options& options);
// num_threads: that compute.
Finding core_finding(const GrantedCpus& granted, std::uint64_t num_threads);
// limit: of open files. wanted: connections that the server would take.
Finding descriptor_finding(std::uint64_t limit, std::uint64_t wanted);

// The models: readable, supported, and whether they fit by the memory plan.
Findings model_findings(const Options& options);

// The server around the model: ports, keys, TLS, the state directory and its store.
Findings service_findings(const Options& options);

// A line each, and one for its advice; or one JSON object.
std::string report_of(const Findings& findings, bool is_json);

}  // namespace troupe
