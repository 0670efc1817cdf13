// SPDX-License-Identifier: Apache-2.0
// The flags that say what is to be sent, of every command that sends or
// simulates it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loadgen/workload/workload_settings.hpp"

namespace CLI {
class App;
}

namespace troupe::loadgen {

// Flags as typed; a missing one leaves the file's or the preset's value.
struct WorkloadFlags {
  std::string file;
  std::string preset;
  std::optional<double> rate, burstiness, duration;
  std::optional<std::uint32_t> users, prompt_tokens, output_tokens;
  std::optional<std::uint64_t> conversations;
};

// `flags` must live as long as the app.
void add_workload_flags(CLI::App& app, WorkloadFlags& flags);

// Throws std::runtime_error: flags that exclude each other, or none that says
// what is to be sent; and what read_workload() and preset() throw.
WorkloadSettings workload_of(const WorkloadFlags& flags);

}  // namespace troupe::loadgen
