// SPDX-License-Identifier: Apache-2.0
// The sizes of a network that a device needs beside its programs and weights. They
// are all that devices know of a model's configuration.
#pragma once

#include <cstdint>
#include <optional>

#include "gpu/data_type.hpp"
#include "gpu/operators/rotary_table.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {

struct ModelShapes {
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;                   // tokens of the longest sequence
  RotaryParameters rotary = {};                       // without max_positions; rotary_dim 0: all of a head
  std::optional<RotaryParameters> local_rotary = {};  // of layers with a rotation of their own
  // Cells of rows: floats of a row of state, and the rows that a usual request needs at once.
  std::uint32_t row_width = 0;
  std::uint32_t rows_a_sequence = 1;
};

KvLayout kv_layout_of(const ModelShapes& shapes, DataType type, std::uint32_t num_pages,
                      KvType kv_type = KvType::kComputed);

// For positions [0, context_length).
RotaryParameters rotary_parameters(const ModelShapes& shapes, std::uint32_t context_length);
RotaryTables rotary_tables(const ModelShapes& shapes, std::uint32_t context_length);
std::uint64_t rotary_table_bytes(const ModelShapes& shapes, std::uint32_t context_length);

}  // namespace troupe
