// SPDX-License-Identifier: Apache-2.0
// "What if this were an H200, or two?": a measured cost profile as another device would
// have it, by the ratios of what data sheets promise. Each part of a batch's time is taken
// to be bound by one thing alone; nothing was measured, so the assumptions go with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/costs/cost_profile.hpp"

namespace troupe::loadgen {

struct Hardware {
  std::string_view name;
  double memory_bandwidth = 0;  // bytes a second
  double bf16_flops = 0;        // a second, dense
  double host_link = 0;         // bytes a second, one way
};

// Throws std::runtime_error that names the known ones: a100, h100, h200, l40s.
const Hardware& hardware_from_name(std::string_view name);

struct OtherHardware {
  CostProfile profile;
  std::vector<std::string> assumptions;  // sentences, to be shown with each result
};

// num_devices: so many share each batch evenly. At least 1. Throws std::runtime_error: the profile's device
// is not called `from`.
OtherHardware on_other_hardware(CostProfile measured, const Hardware& from, const Hardware& to,
                                std::uint32_t num_devices);

}  // namespace troupe::loadgen
