// SPDX-License-Identifier: Apache-2.0
// Facts about a configuration that a stranger's file was taken for, of either format.
#pragma once

#include "gpu/model/model_config.hpp"

namespace troupe::fuzz {

void check_config(const ModelConfig& config);
void check_defaults(const GenerationDefaults& defaults);

}  // namespace troupe::fuzz
