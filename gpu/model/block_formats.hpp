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

#include "gpu/block_format.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

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

// `bytes`: whole blocks of the file, not necessarily aligned, of a quantized format;
// `blocks`: as many of 32 elements as they hold.
void read_blocks(BlockFormat format, std::span<const std::byte> bytes, std::span<QuantizedBlock> blocks);

// The inverse, of Q8_0 and Q4_0 alone: bytes as a file has them. Throws std::logic_error
// for another format, or where the sizes differ.
void write_blocks(BlockFormat format, std::span<const QuantizedBlock> blocks, std::span<std::byte> bytes);

// 32 values a block.
void open_blocks(BlockFormat format, std::span<const QuantizedBlock> blocks, std::span<float> values);

// `blocks`: whole blocks, not necessarily aligned, of all the elements of `values`.
void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> values);

// MXFP4 as safetensors have it: elements 2t and 2t + 1 of a block of 32 in byte t of its 16, one scale a
// block.
void read_mxfp4(std::span<const std::byte> nibbles, std::span<const std::byte> scales,
                std::span<QuantizedBlock> blocks);
void dequantize_mxfp4(std::span<const std::byte> nibbles, std::span<const std::byte> scales,
                      std::span<float> values);
bool has_finite_mxfp4_scales(std::span<const std::byte> scales);

// False where a scale makes values infinite or not a number. The format is a quantized one.
bool has_finite_scales(BlockFormat format, std::span<const std::byte> blocks);

}  // namespace troupe
