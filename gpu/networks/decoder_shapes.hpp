// SPDX-License-Identifier: Apache-2.0
// The sizes that a decoder's configuration states, as devices take them.
#pragma once

#include <cstdint>

#include "gpu/model/model_config.hpp"
#include "gpu/model/model_shapes.hpp"

namespace troupe {

// With one rotation for all layers; without its max_positions, which rotary_parameters() fills in.
ModelShapes decoder_shapes(const ModelConfig& config);

// The input of this layer is the state that is handed out: late enough to know the question, and not
// yet busy with the next token.
inline std::uint32_t middle_layer(const ModelConfig& config) { return config.num_layers / 2; }

}  // namespace troupe
