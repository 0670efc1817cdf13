// SPDX-License-Identifier: Apache-2.0
// Rounds a row of a to 8 bits, block by block. Nothing is fused, so every instruction
// set finds the same.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/quantize_block.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

typedef std::int8_t LaneBytes __attribute__((vector_size(kLanes), may_alias));
typedef std::int8_t BlockBytes __attribute__((vector_size(kBlockInputs), aligned(1), may_alias));

// Smaller blocks are zeros: 127 over their largest magnitude would be infinite.
constexpr float kLeastMagnitude = 0x1p-100F;

inline float max_of_lanes(VecF value) { return max_in_all_lanes(value)[0]; }

// Values of a block, zeros behind the last one.
inline void load_inputs(const RowToRound& row, std::size_t first, VecF (&values)[kBlockVectors]) {
  const std::size_t left = row.num_inputs - first;
  const std::size_t count = left < kBlockInputs ? left : kBlockInputs;
  float padded[kBlockInputs] = {};
  const float* from = padded;
  if (row.a_type == DataType::kF32) {
    const float* const inputs = static_cast<const float*>(row.a) + first;
    if (count == kBlockInputs) {
      from = inputs;
    } else {
      for (std::size_t k = 0; k < count; ++k) padded[k] = inputs[k];
    }
  } else {
    const auto* const inputs = static_cast<const std::uint16_t*>(row.a) + first;
    if (count == kBlockInputs) {
      for (int i = 0; i < kBlockVectors; ++i) values[i] = load_bf16(inputs + i * static_cast<int>(kLanes));
      return;
    }
    for (std::size_t k = 0; k < count; ++k) padded[k] = scalar_f32(inputs[k]);
  }
  load_block(from, values);
}

// In the order of Q8Rows::numbers.
inline void store_numbers(const VecF (&whole)[kBlockVectors], std::int8_t* numbers) {
  alignas(kBlockInputs) std::int8_t in_order[kBlockInputs];
  for (int i = 0; i < kBlockVectors; ++i) {
    *reinterpret_cast<LaneBytes*>(in_order + i * static_cast<int>(kLanes)) =
        __builtin_convertvector(__builtin_convertvector(whole[i], VecI), LaneBytes);
  }
  const BlockBytes bytes = *reinterpret_cast<const BlockBytes*>(in_order);
  *reinterpret_cast<BlockBytes*>(numbers) =
      __builtin_shufflevector(bytes, bytes, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15, 16, 20, 17,
                              21, 18, 22, 19, 23, 24, 28, 25, 29, 26, 30, 27, 31);
}

inline void round_row(const RowToRound& row) {
  const std::size_t num_rows = row.row.num_rows;
  std::size_t block = 0;
  for (std::size_t first = 0; first < row.num_inputs; first += kBlockInputs, ++block) {
    VecF values[kBlockVectors], whole[kBlockVectors];
    load_inputs(row, first, values);
    VecF largest{}, not_finite{};  // the latter: zero, or NaN
    for (int i = 0; i < kBlockVectors; ++i) {
      largest = maximum(maximum(values[i], -values[i]), largest);
      not_finite += values[i] * 0.0F;
    }
    const float magnitude = max_of_lanes(largest);
    const float inverse = magnitude < kLeastMagnitude ? 0.0F : 127.0F / magnitude;
    const float scale = magnitude < kLeastMagnitude ? 0.0F : magnitude / 127.0F;
    round_block(values, inverse, -127.0F, 127.0F, whole);
    // Sums of whole numbers are exact.
    VecF of_half[2]{};
    for (int i = 0; i < kBlockVectors; ++i) of_half[2 * i / kBlockVectors] += whole[i];
    const float first_half = sum_of_lanes(of_half[0]), sum = first_half + sum_of_lanes(of_half[1]);
    store_numbers(whole, row.row.numbers + block * num_rows * kBlockInputs);
    row.row.blocks[block * num_rows] = {
        .scale = scale + sum_of_lanes(not_finite),
        .sum = sum * scale,
        .offset = -kLeastOffset * static_cast<std::int32_t>(sum),
        .first_half_offset = -kLeastOffset * static_cast<std::int32_t>(first_half)};
  }
}

}  // namespace
}  // namespace troupe
