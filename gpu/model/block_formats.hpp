// SPDX-License-Identifier: Apache-2.0
// The element types of GGUF tensors. Quantized ones store a row as blocks of 32
// or 256 elements with scales in f16 of their own; here are the sizes of blocks
// and their values in f32, which equal those of ggml's Python package bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/data_type.hpp"

namespace troupe {

// The numbers are those of the files.
enum class BlockFormat : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIq4Nl = 20,
  kBF16 = 30,
  kMxfp4 = 39,
};

struct BlockLayout {
  BlockFormat format;
  std::string_view name;       // "Q4_K"
  std::uint32_t num_elements;  // of a block; a row has a multiple of it
  std::uint32_t num_bytes;
  std::optional<DataType> plain;  // elements without blocks
};

// Null: no type that is read here.
const BlockLayout* find_block_layout(std::uint32_t format);
const BlockLayout& layout_of(BlockFormat format);
// For error texts, also of types that are not read here; empty: ggml knows none.
std::string_view name_of_ggml_type(std::uint32_t format);

// `blocks`: whole blocks, not necessarily aligned, of all the elements of `values`.
void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> values);

// False where a scale makes values infinite or not a number. The format is a quantized one.
bool has_finite_scales(BlockFormat format, std::span<const std::byte> blocks);

}  // namespace troupe
