// SPDX-License-Identifier: Apache-2.0
// The rotary positions that a model's configuration asks for, as devices take them.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/operators/rotary_table.hpp"

namespace troupe {

// Without max_positions, which rotary_parameters() fills in.
RotaryParameters rotary_of(const ModelConfig& config);

}  // namespace troupe
