// SPDX-License-Identifier: Apache-2.0
// A cost profile as JSON, with the samples it was fitted to. loadgen/ reads it.
#pragma once

#include <span>
#include <string>

#include "policy/costs/cost_profile.hpp"

namespace troupe {

std::string profile_json(const CostProfile& profile, std::span<const CostSample> samples);

}  // namespace troupe
