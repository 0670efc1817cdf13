// SPDX-License-Identifier: Apache-2.0
// Reads a server's command line as settings of the simulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/serving_settings.hpp"

namespace troupe::loadgen {

// A simulation may go beyond what a server allows. Throws std::runtime_error: the text
// is no value of the setting.
void set_serving_flag(const Setting<ServingSettings>& setting, const std::string& text,
                      ServingSettings& settings);

// Takes over the flags of `troupe serve` that are in serving_table(), written
// "--flag value" or "--flag=value"; all others leave the settings as they were
// profiled. Throws as set_serving_flag().
void apply_serving_flags(const std::vector<std::string>& argv, ServingSettings& settings);

// The number behind --workers; none: 1. Throws std::runtime_error: it is no number from 1 on.
std::uint32_t workers_of(const std::vector<std::string>& argv);

// Throws std::runtime_error if the command lines differ in a flag that no simulation
// knows: the simulated arms would be one and the same server. Workers may differ if the
// profile is that of each of them, as where each has a device.
void refuse_unsimulated_differences(const std::vector<std::vector<std::string>>& command_lines,
                                    bool workers_may_differ);

}  // namespace troupe::loadgen
