// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_shapes.hpp"

#include <memory>

namespace troupe {
namespace {

RotaryParameters complete(RotaryParameters parameters, const ModelShapes& shapes,
                          std::uint32_t context_length) {
  if (parameters.rotary_dim == 0) parameters.rotary_dim = shapes.head_dim;
  parameters.max_positions = context_length;
  return parameters;
}

}  // namespace

KvLayout kv_layout_of(const ModelShapes& shapes, DataType type, std::uint32_t num_pages, KvType kv_type) {
  return {.num_layers = shapes.num_layers,
          .num_pages = num_pages,
          .num_kv_heads = shapes.num_kv_heads,
          .head_dim = shapes.head_dim,
          .type = type,
          .kv_type = kv_type};
}

RotaryParameters rotary_parameters(const ModelShapes& shapes, std::uint32_t context_length) {
  return complete(shapes.rotary, shapes, context_length);
}

RotaryTables rotary_tables(const ModelShapes& shapes, std::uint32_t context_length) {
  RotaryTables tables{.all = std::make_shared<const RotaryTable>(rotary_parameters(shapes, context_length)),
                      .local = nullptr};
  if (shapes.local_rotary) {
    tables.local =
        std::make_shared<const RotaryTable>(complete(*shapes.local_rotary, shapes, context_length));
  }
  return tables;
}

std::uint64_t rotary_table_bytes(const ModelShapes& shapes, std::uint32_t context_length) {
  const std::uint64_t num_tables = shapes.local_rotary ? 2 : 1;
  return num_tables * context_length * shapes.head_dim * sizeof(float);
}

}  // namespace troupe
