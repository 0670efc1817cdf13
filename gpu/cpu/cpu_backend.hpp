// SPDX-License-Identifier: Apache-2.0
// The CPU cores as a backend (gpu/backend.hpp).
#pragma once

#include "gpu/backend.hpp"
#include "gpu/cpu/cpu_model.hpp"

namespace troupe {

// The settings that concern the host.
CpuModelSettings cpu_model_settings(const BackendSettings& settings);

}  // namespace troupe
