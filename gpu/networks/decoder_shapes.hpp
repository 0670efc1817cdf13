// SPDX-License-Identifier: Apache-2.0
// The sizes that a decoder's configuration states, as devices take them.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/model/model_shapes.hpp"

namespace troupe {

// With one rotation for all layers; without its max_positions, which rotary_parameters() fills in.
ModelShapes decoder_shapes(const ModelConfig& config);

}  // namespace troupe
