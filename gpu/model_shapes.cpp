// SPDX-License-Identifier: Apache-2.0
#include "gpu/model_shapes.hpp"

namespace troupe {

KvLayout kv_layout_of(const ModelConfig& config, DataType type, std::uint32_t num_pages) {
  return {.num_layers = config.num_layers,
          .num_pages = num_pages,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .type = type};
}

RotaryParameters rotary_parameters(const ModelConfig& config, std::uint32_t context_length) {
  RotaryParameters parameters{
      .head_dim = config.head_dim, .max_positions = context_length, .theta = config.rope_theta};
  if (config.rope_scaling) {
    const RopeScaling& scaling = *config.rope_scaling;
    parameters.scaling = scaling.type == "llama3" ? RotaryScaling::kLlama3 : RotaryScaling::kLinear;
    parameters.factor = scaling.factor;
    parameters.low_frequency_factor = scaling.low_frequency_factor;
    parameters.high_frequency_factor = scaling.high_frequency_factor;
    parameters.original_max_positions = scaling.original_context_length;
  }
  return parameters;
}

}  // namespace troupe
