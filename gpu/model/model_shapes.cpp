// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_shapes.hpp"

namespace troupe {

KvLayout kv_layout_of(const ModelShapes& shapes, DataType type, std::uint32_t num_pages) {
  return {.num_layers = shapes.num_layers,
          .num_pages = num_pages,
          .num_kv_heads = shapes.num_kv_heads,
          .head_dim = shapes.head_dim,
          .type = type};
}

RotaryParameters rotary_parameters(const ModelShapes& shapes, std::uint32_t context_length) {
  RotaryParameters parameters = shapes.rotary;
  if (parameters.rotary_dim == 0) parameters.rotary_dim = shapes.head_dim;
  parameters.max_positions = context_length;
  return parameters;
}

}  // namespace troupe
