// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/block_formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {
namespace {

using Block = const std::byte*;

constexpr std::array kLayouts = {
    BlockLayout{BlockFormat::kF32, "F32", 1, 4, DataType::kF32},
    BlockLayout{BlockFormat::kF16, "F16", 1, 2, DataType::kF16},
    BlockLayout{BlockFormat::kBF16, "BF16", 1, 2, DataType::kBF16},
    BlockLayout{BlockFormat::kQ4_0, "Q4_0", 32, 18, {}},
    BlockLayout{BlockFormat::kQ4_1, "Q4_1", 32, 20, {}},
    BlockLayout{BlockFormat::kQ5_0, "Q5_0", 32, 22, {}},
    BlockLayout{BlockFormat::kQ5_1, "Q5_1", 32, 24, {}},
    BlockLayout{BlockFormat::kQ8_0, "Q8_0", 32, 34, {}},
    BlockLayout{BlockFormat::kQ4_K, "Q4_K", 256, 144, {}},
    BlockLayout{BlockFormat::kQ5_K, "Q5_K", 256, 176, {}},
    BlockLayout{BlockFormat::kQ6_K, "Q6_K", 256, 210, {}},
    BlockLayout{BlockFormat::kIq4Nl, "IQ4_NL", 32, 18, {}},
    BlockLayout{BlockFormat::kMxfp4, "MXFP4", 32, 17, {}},
};

constexpr std::array<std::pair<std::uint32_t, std::string_view>, 21> kOtherTypes = {{
    {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},
    {25, "I16"},     {26, "I32"},   {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},
    {35, "TQ2_0"},   {40, "NVFP4"}, {41, "Q1_0"},
}};

// Values that a nibble of IQ4_NL stands for.
constexpr std::array<int, 16> kNonlinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of E2M1; MXFP4's scale is halved in turn.
constexpr std::array<int, 16> kDoubledE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int byte_at(Block block, std::size_t offset) { return std::to_integer<int>(block[offset]); }

std::uint32_t u16_at(Block block, std::size_t offset) {
  return std::to_integer<std::uint32_t>(block[offset]) | std::to_integer<std::uint32_t>(block[offset + 1])
                                                             << 8;
}

std::uint32_t u32_at(Block block, std::size_t offset) {
  return u16_at(block, offset) | u16_at(block, offset + 2) << 16;
}

float f32_from_half(std::uint32_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

float half_at(Block block, std::size_t offset) { return f32_from_half(u16_at(block, offset)); }

float scaled(float scale, int value) { return scale * static_cast<float>(value); }

// Element i of a block of 32 nibbles: the low ones come first.
int nibble(Block nibbles, std::size_t i) {
  return i < 16 ? byte_at(nibbles, i) & 15 : byte_at(nibbles, i - 16) >> 4;
}

// With the fifth bit from `high`.
int five_bits(Block nibbles, std::uint32_t high, std::size_t i) {
  return nibble(nibbles, i) | static_cast<int>(high >> i & 1U) << 4;
}

// 2^(exponent - 128), half of the scale that the exponent says.
float half_of_e8m0(int exponent) {
  if (exponent < 2) return std::bit_cast<float>(0x00200000U << exponent);
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 1) << 23);
}

// Scale and minimum of part j of 8 of a Q4_K or Q5_K block: 6 bits each in 12 bytes.
std::pair<int, int> packed_scales(Block scales, std::size_t j) {
  if (j < 4) return {byte_at(scales, j) & 63, byte_at(scales, j + 4) & 63};
  return {(byte_at(scales, j + 4) & 15) | byte_at(scales, j - 4) >> 6 << 4,
          byte_at(scales, j + 4) >> 4 | byte_at(scales, j) >> 6 << 4};
}

// [fifth bits], nibbles of pairs of parts; a fifth bit of part j is bit j.
template <bool kHasFifthBits>
void open_k_block(Block block, float* out) {
  const float scale = half_at(block, 0), min = half_at(block, 2);
  const Block fifth = block + 16;
  const Block nibbles = kHasFifthBits ? block + 48 : block + 16;
  for (std::size_t j = 0; j < 8; ++j) {
    const auto [part_scale, part_min] = packed_scales(block + 4, j);
    const float d = scaled(scale, part_scale), m = scaled(min, part_min);
    for (std::size_t l = 0; l < 32; ++l) {
      int value = byte_at(nibbles, 32 * (j / 2) + l) >> (4 * (j & 1)) & 15;
      if constexpr (kHasFifthBits) value |= (byte_at(fifth, l) >> j & 1) << 4;
      out[32 * j + l] = scaled(d, value) - m;
    }
  }
}

void open_q6_k(Block block, float* out) {
  const float scale = half_at(block, 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, k = i % 128 / 32, l = i % 32;
    const int low = byte_at(block, 64 * half + 32 * (k & 1) + l) >> (4 * (k >> 1)) & 15;
    const int high = byte_at(block, 128 + 32 * half + l) >> (2 * k) & 3;
    const auto part_scale = static_cast<std::int8_t>(byte_at(block, 192 + i / 16));
    out[i] = scaled(scaled(scale, part_scale), (low | high << 4) - 32);
  }
}

// value_of(i) of the 32 elements of a block.
template <class ValueOf>
void fill_32(float* out, ValueOf value_of) {
  std::array<float, 32> values;  // not aliased by the block's bytes
  for (std::size_t i = 0; i < 32; ++i) values[i] = value_of(i);
  std::copy(values.begin(), values.end(), out);
}

void open_f32(Block b, float* out) { *out = std::bit_cast<float>(u32_at(b, 0)); }
void open_f16(Block b, float* out) { *out = half_at(b, 0); }
void open_bf16(Block b, float* out) { *out = std::bit_cast<float>(u16_at(b, 0) << 16); }

void open_q4_0(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0)](std::size_t i) { return scaled(d, nibble(b + 2, i) - 8); });
}

void open_q4_1(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0), m = half_at(b, 2)](std::size_t i) {
    return scaled(d, nibble(b + 4, i)) + m;
  });
}

void open_q5_0(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0), high = u32_at(b, 2)](std::size_t i) {
    return scaled(d, five_bits(b + 6, high, i) - 16);
  });
}

void open_q5_1(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0), m = half_at(b, 2), high = u32_at(b, 4)](std::size_t i) {
    return scaled(d, five_bits(b + 8, high, i)) + m;
  });
}

void open_q8_0(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0)](std::size_t i) {
    return scaled(d, static_cast<std::int8_t>(byte_at(b, 2 + i)));
  });
}

void open_iq4_nl(Block b, float* out) {
  fill_32(out, [b, d = half_at(b, 0)](std::size_t i) {
    return scaled(d, kNonlinear[static_cast<std::size_t>(nibble(b + 2, i))]);
  });
}

void open_mxfp4(Block b, float* out) {
  fill_32(out, [b, d = half_of_e8m0(byte_at(b, 0))](std::size_t i) {
    return scaled(d, kDoubledE2m1[static_cast<std::size_t>(nibble(b + 1, i))]);
  });
}

using OpenBlock = void (*)(Block, float*);

OpenBlock opener_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::kF32: return open_f32;
    case BlockFormat::kF16: return open_f16;
    case BlockFormat::kBF16: return open_bf16;
    case BlockFormat::kQ4_0: return open_q4_0;
    case BlockFormat::kQ4_1: return open_q4_1;
    case BlockFormat::kQ5_0: return open_q5_0;
    case BlockFormat::kQ5_1: return open_q5_1;
    case BlockFormat::kQ8_0: return open_q8_0;
    case BlockFormat::kQ4_K: return open_k_block<false>;
    case BlockFormat::kQ5_K: return open_k_block<true>;
    case BlockFormat::kQ6_K: return open_q6_k;
    case BlockFormat::kIq4Nl: return open_iq4_nl;
    case BlockFormat::kMxfp4: return open_mxfp4;
  }
  return nullptr;
}

bool is_finite_half(std::uint32_t half) { return (half & 0x7C00U) != 0x7C00U; }

bool has_finite_scales(BlockFormat format, Block block) {
  switch (format) {
    case BlockFormat::kQ6_K: return is_finite_half(u16_at(block, 208));
    case BlockFormat::kMxfp4: return byte_at(block, 0) <= 252;  // 6 x 2^125 is finite, 6 x 2^126 is not
    case BlockFormat::kQ4_1:
    case BlockFormat::kQ5_1:
    case BlockFormat::kQ4_K:
    case BlockFormat::kQ5_K: return is_finite_half(u16_at(block, 0)) && is_finite_half(u16_at(block, 2));
    default: return is_finite_half(u16_at(block, 0));
  }
}

}  // namespace

const BlockLayout* find_block_layout(std::uint32_t format) {
  const auto found = std::find_if(kLayouts.begin(), kLayouts.end(), [&](const BlockLayout& layout) {
    return static_cast<std::uint32_t>(layout.format) == format;
  });
  return found == kLayouts.end() ? nullptr : &*found;
}

const BlockLayout& layout_of(BlockFormat format) {
  const BlockLayout* layout = find_block_layout(static_cast<std::uint32_t>(format));
  assert(layout != nullptr);
  return *layout;
}

std::string_view name_of_ggml_type(std::uint32_t format) {
  if (const BlockLayout* layout = find_block_layout(format)) return layout->name;
  for (const auto& [number, name] : kOtherTypes) {
    if (number == format) return name;
  }
  return "";
}

void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> values) {
  const BlockLayout& layout = layout_of(format);
  if (values.size() % layout.num_elements != 0 ||
      values.size() / layout.num_elements * layout.num_bytes != blocks.size())
    throw std::logic_error("blocks of " + std::to_string(blocks.size()) + " bytes do not hold " +
                           std::to_string(values.size()) + " values");
  const OpenBlock open_block = opener_of(format);
  Block block = blocks.data();
  for (std::size_t begin = 0; begin < values.size(); begin += layout.num_elements) {
    open_block(block, values.data() + begin);
    block += layout.num_bytes;
  }
}

bool has_finite_scales(BlockFormat format, std::span<const std::byte> blocks) {
  const std::size_t size = layout_of(format).num_bytes;
  for (std::size_t begin = 0; begin < blocks.size(); begin += size) {
    if (!has_finite_scales(format, blocks.data() + begin)) return false;
  }
  return true;
}

}  // namespace troupe
