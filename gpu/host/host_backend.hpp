// SPDX-License-Identifier: Apache-2.0
// The CPU cores as a backend (gpu/backend.hpp).
#pragma once

#include "gpu/backend.hpp"
#include "gpu/host/host_model.hpp"

namespace troupe {

// What of the settings concerns the host.
HostModelSettings host_model_settings(const BackendSettings& settings);

}  // namespace troupe
