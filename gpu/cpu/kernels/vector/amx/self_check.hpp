// SPDX-License-Identifier: Apache-2.0
// Checks that tiles and vectors agree on this processor: the same rows, as few and as many, have the same
// bits. A token may not depend on its batch, and the tiles' order of operations is Intel's documents'.
#pragma once

#include "gpu/cpu/kernels/vector/amx/amx_tile.hpp"

namespace troupe {
namespace {

constexpr std::size_t kCheckedRows = 20, kCheckedInputs = 4200, kCheckedColumns = 64;

// Pseudo-random bf16 of either sign, from 2^-30 to 2^30.
inline std::uint16_t checked_value(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  const std::uint32_t exponent = 97U + (state >> 24) % 60U;
  return static_cast<std::uint16_t>((state >> 9 & 0x8000U) | exponent << 7 | (state >> 12 & 0x7FU));
}

// Rows that several tiles and their ends multiply, against the first of them alone.
inline bool rows_agree(void (*multiply)(const MatmulBlock&)) {
  alignas(64) static std::uint16_t a[kCheckedRows * kCheckedInputs];
  alignas(64) static std::uint16_t weights[kCheckedColumns * kCheckedInputs];
  static float many[kCheckedRows * kCheckedColumns], few[kCheckedRows * kCheckedColumns];
  std::uint32_t state = 1;
  for (auto& value : a) value = checked_value(state);
  for (auto& value : weights) value = checked_value(state);
  MatmulBlock block;
  block.panels = reinterpret_cast<const std::byte*>(weights);
  block.num_panels = kCheckedColumns / kPanelWidth;
  block.num_inputs = kCheckedInputs;
  block.num_columns = kCheckedColumns;
  block.format = BlockFormat::kBF16;
  block.a = a;
  block.a_type = DataType::kBF16;
  block.a_stride = kCheckedInputs;
  block.c_stride = kCheckedColumns;
  block.c = many;
  block.num_rows = kCheckedRows;
  multiply(block);
  block.c = few;
  for (block.num_rows = 1; block.num_rows <= 4; ++block.num_rows) {
    multiply(block);
    if (__builtin_memcmp(few, many, block.num_rows * kCheckedColumns * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace
}  // namespace troupe
