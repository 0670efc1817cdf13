// SPDX-License-Identifier: Apache-2.0
// Reads a server's command line as settings of the simulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/costs/cost_profile.hpp"
#include "policy/serving_settings.hpp"

namespace troupe::loadgen {

// A simulation may go beyond what a server allows. Throws std::runtime_error: the text
// is no value of the setting.
void set_serving_flag(const Setting<ServingSettings>& setting, const std::string& text,
                      ServingSettings& settings);

// Takes over the flags of `troupe serve` that are in serving_table(), written
// "--flag value" or "--flag=value". Throws as set_serving_flag().
void apply_serving_flags(const std::vector<std::string>& argv, ServingSettings& settings);

// The number behind --workers; none: 1. Throws std::runtime_error: it is no number from 1 on.
std::uint32_t workers_of(const std::vector<std::string>& argv);

// A server of a sweep keeps nothing on the disk unless its flags name a store, whatever was profiled.
void leave_out_unused_disk(const std::vector<std::string>& argv, ProfiledServer& server);

// Throws std::runtime_error that names the flag: one that no simulation changes is unlike what the
// profile was measured with, or the profile does not say. is_of_each_worker: the profile is that of each
// worker, however many there are, as where each has a device.
void refuse_unsimulated_flags(const std::vector<std::string>& argv, const CostProfile& profile,
                              bool is_of_each_worker);

}  // namespace troupe::loadgen
