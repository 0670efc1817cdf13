// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/decoder_shapes.hpp"

namespace troupe {
namespace {

RotaryScaling scaling_of(const std::string& type) {
  if (type == "linear") return RotaryScaling::kLinear;
  if (type == "llama3") return RotaryScaling::kLlama3;
  if (type == "yarn") return RotaryScaling::kYarn;
  return RotaryScaling::kNone;  // longrope: divisors are all of it
}

RotaryParameters rotary_of(const ModelConfig& config) {
  RotaryParameters parameters{
      .rotary_dim = config.rotary_dim, .theta = config.rope_theta, .divisors = config.rope_divisors};
  if (!config.rope_scaling) return parameters;
  const RopeScaling& scaling = *config.rope_scaling;
  parameters.scaling = scaling_of(scaling.type);
  parameters.factor = scaling.factor;
  parameters.low_frequency_factor = scaling.low_frequency_factor;
  parameters.high_frequency_factor = scaling.high_frequency_factor;
  parameters.original_max_positions = scaling.original_context_length;
  parameters.fast_rotations = scaling.fast_rotations;
  parameters.slow_rotations = scaling.slow_rotations;
  parameters.rounds_bounds = scaling.rounds_bounds;
  parameters.magnitude = scaling.magnitude;
  if (!scaling.short_divisors.empty()) parameters.divisors = scaling.short_divisors;
  parameters.long_divisors = scaling.long_divisors;
  return parameters;
}

}  // namespace

ModelShapes decoder_shapes(const ModelConfig& config) {
  return {.num_layers = config.num_layers,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .vocabulary_size = config.vocabulary_size,
          .context_length = config.context_length,
          .rotary = rotary_of(config)};
}

}  // namespace troupe
