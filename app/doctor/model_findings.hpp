// SPDX-License-Identifier: Apache-2.0
// The models: readable, supported, and whether they fit by the memory plan.
#pragma once

#include "app/doctor/finding.hpp"
#include "app/options/options.hpp"

namespace troupe {

Findings model_findings(const Options& options);

}  // namespace troupe
