// SPDX-License-Identifier: Apache-2.0
// Reads a server's command line as settings of the simulator.
#pragma once

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

// Throws std::runtime_error if the command lines differ in a flag that no simulation
// knows: the simulated arms would be one and the same server.
void refuse_unsimulated_differences(const std::vector<std::vector<std::string>>& command_lines);

}  // namespace troupe::loadgen
