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

constexpr int kMaxMxfp4Scale = 252;  // 6 x 2^125 is finite, 6 x 2^126 is not

int byte_at(Block block, std::size_t offset) { return std::to_integer<int>(block[offset]); }

std::uint16_t u16_at(Block block, std::size_t offset) {
  return static_cast<std::uint16_t>(byte_at(block, offset) | byte_at(block, offset + 1) << 8);
}

std::uint32_t u32_at(Block block, std::size_t offset) {
  return u16_at(block, offset) | std::uint32_t{u16_at(block, offset + 2)} << 16;
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

// Element i of a block of 32 nibbles: the low ones come first.
int nibble(Block nibbles, std::size_t i) {
  return i < 16 ? byte_at(nibbles, i) & 15 : byte_at(nibbles, i - 16) >> 4;
}

// With the fifth bit from `high`.
int five_bits(Block nibbles, std::uint32_t high, std::size_t i) {
  return nibble(nibbles, i) | static_cast<int>(high >> i & 1U) << 4;
}

// 2^(exponent - 128) as bf16, half of the scale that the exponent says.
std::uint16_t half_of_e8m0(int exponent) {
  return static_cast<std::uint16_t>(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
}

// Scale and minimum of part j of 8 of a Q4_K or Q5_K block: 6 bits each in 12 bytes.
std::pair<int, int> packed_scales(Block scales, std::size_t j) {
  if (j < 4) return {byte_at(scales, j) & 63, byte_at(scales, j + 4) & 63};
  return {(byte_at(scales, j + 4) & 15) | byte_at(scales, j - 4) >> 6 << 4,
          byte_at(scales, j + 4) >> 4 | byte_at(scales, j) >> 6 << 4};
}

using OpenElement = void (*)(Block, float*);

void open_f32(Block b, float* out) { *out = std::bit_cast<float>(u32_at(b, 0)); }
void open_f16(Block b, float* out) { *out = half_at(b, 0); }
void open_bf16(Block b, float* out) { *out = std::bit_cast<float>(std::uint32_t{u16_at(b, 0)} << 16); }

// number_of(i) of the 32 elements of a block.
template <class NumberOf>
void fill_numbers(QuantizedBlock& out, NumberOf number_of) {
  std::array<std::int8_t, kBlockInputs> numbers;  // not aliased by the file's bytes
  for (std::size_t i = 0; i < kBlockInputs; ++i) numbers[i] = static_cast<std::int8_t>(number_of(i));
  std::copy(numbers.begin(), numbers.end(), out.numbers);
}

void read_q4_0(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  fill_numbers(*out, [b](std::size_t i) { return nibble(b + 2, i) - 8; });
}

void read_q4_1(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  out->minimum = u16_at(b, 2);
  fill_numbers(*out, [b](std::size_t i) { return nibble(b + 4, i); });
}

void read_q5_0(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  fill_numbers(*out, [b, high = u32_at(b, 2)](std::size_t i) { return five_bits(b + 6, high, i) - 16; });
}

void read_q5_1(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  out->minimum = u16_at(b, 2);
  fill_numbers(*out, [b, high = u32_at(b, 4)](std::size_t i) { return five_bits(b + 8, high, i); });
}

void read_q8_0(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  fill_numbers(*out, [b](std::size_t i) { return byte_at(b, 2 + i); });
}

void read_iq4_nl(Block b, QuantizedBlock* out) {
  out->scale = u16_at(b, 0);
  fill_numbers(*out, [b](std::size_t i) { return nibble(b + 2, i); });
}

void read_mxfp4_block(Block b, QuantizedBlock* out) {
  out->scale = half_of_e8m0(byte_at(b, 0));
  fill_numbers(*out, [b](std::size_t i) { return nibble(b + 1, i); });
}

// [fifth bits], nibbles of pairs of parts; a fifth bit of part j is bit j.
template <bool kHasFifthBits>
void read_k_block(Block block, QuantizedBlock* out) {
  const Block fifth = block + 16;
  const Block nibbles = kHasFifthBits ? block + 48 : block + 16;
  for (std::size_t j = 0; j < kSuperBlocks; ++j) {
    const auto [part_scale, part_min] = packed_scales(block + 4, j);
    out[j].scale = u16_at(block, 0);
    out[j].minimum = u16_at(block, 2);
    out[j].factors[0] = static_cast<std::uint8_t>(part_scale);
    out[j].factors[1] = static_cast<std::uint8_t>(part_min);
    fill_numbers(out[j], [&](std::size_t l) {
      const int low = byte_at(nibbles, 32 * (j / 2) + l) >> (4 * (j & 1)) & 15;
      return kHasFifthBits ? low | (byte_at(fifth, l) >> j & 1) << 4 : low;
    });
  }
}

void read_q6_k(Block block, QuantizedBlock* out) {
  for (std::size_t j = 0; j < kSuperBlocks; ++j) {
    const std::size_t half = j / 4, k = j % 4;
    out[j].scale = u16_at(block, 208);
    for (std::size_t part = 0; part < 2; ++part)
      out[j].factors[part] = static_cast<std::uint8_t>(byte_at(block, 192 + 2 * j + part));
    fill_numbers(out[j], [&](std::size_t l) {
      const int low = byte_at(block, 64 * half + 32 * (k & 1) + l) >> (4 * (k >> 1)) & 15;
      const int high = byte_at(block, 128 + 32 * half + l) >> (2 * k) & 3;
      return (low | high << 4) - 32;
    });
  }
}

using ReadBlock = void (*)(Block, QuantizedBlock*);

ReadBlock reader_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ4_0: return read_q4_0;
    case BlockFormat::kQ4_1: return read_q4_1;
    case BlockFormat::kQ5_0: return read_q5_0;
    case BlockFormat::kQ5_1: return read_q5_1;
    case BlockFormat::kQ8_0: return read_q8_0;
    case BlockFormat::kQ4_K: return read_k_block<false>;
    case BlockFormat::kQ5_K: return read_k_block<true>;
    case BlockFormat::kQ6_K: return read_q6_k;
    case BlockFormat::kIq4Nl: return read_iq4_nl;
    case BlockFormat::kMxfp4: return read_mxfp4_block;
    case BlockFormat::kF32:
    case BlockFormat::kF16:
    case BlockFormat::kBF16: break;
  }
  return nullptr;
}

float scaled(float scale, int number) { return scale * static_cast<float>(number); }

// value_of(number, i) of the 32 elements of a block.
template <class ValueOf>
void fill_values(const QuantizedBlock& block, float* out, ValueOf value_of) {
  std::array<float, kBlockInputs> values;  // not aliased by the block's numbers
  for (std::size_t i = 0; i < kBlockInputs; ++i) values[i] = value_of(int{block.numbers[i]}, i);
  std::copy(values.begin(), values.end(), out);
}

void open_block(BlockFormat format, const QuantizedBlock& block, float* out) {
  const float d = f32_from_half(block.scale), m = f32_from_half(block.minimum);
  switch (format) {
    case BlockFormat::kQ4_1:
    case BlockFormat::kQ5_1:
      return fill_values(block, out, [=](int number, std::size_t) { return scaled(d, number) + m; });
    case BlockFormat::kQ4_K:
    case BlockFormat::kQ5_K:
      return fill_values(block, out,
                         [scale = scaled(d, block.factors[0]), min = scaled(m, block.factors[1])](
                             int number, std::size_t) { return scaled(scale, number) - min; });
    case BlockFormat::kQ6_K:
      return fill_values(block, out, [&](int number, std::size_t i) {
        return scaled(scaled(d, static_cast<std::int8_t>(block.factors[i / 16])), number);
      });
    case BlockFormat::kIq4Nl:
      return fill_values(block, out,
                         [=](int number, std::size_t) { return scaled(d, kIq4NlNumbers[number]); });
    case BlockFormat::kMxfp4:
      return fill_values(block, out,
                         [scale = std::bit_cast<float>(std::uint32_t{block.scale} << 16)](
                             int number, std::size_t) { return scaled(scale, kDoubledE2m1[number]); });
    default: return fill_values(block, out, [=](int number, std::size_t) { return scaled(d, number); });
  }
}

void dequantize_blocks(BlockFormat format, std::span<const std::byte> bytes, std::span<float> values) {
  const BlockLayout& layout = layout_of(format);
  const ReadBlock read = reader_of(format);
  std::array<QuantizedBlock, kSuperBlocks> blocks;
  Block block = bytes.data();
  for (std::size_t begin = 0; begin < values.size(); begin += layout.num_elements) {
    read(block, blocks.data());
    open_blocks(format, std::span(blocks).first(layout.num_elements / kBlockInputs),
                values.subspan(begin, layout.num_elements));
    block += layout.num_bytes;
  }
}

void check_size(BlockFormat format, std::size_t num_bytes, std::size_t num_elements) {
  const BlockLayout& layout = layout_of(format);
  if (num_elements % layout.num_elements != 0 ||
      num_elements / layout.num_elements * layout.num_bytes != num_bytes)
    throw std::logic_error("blocks of " + std::to_string(num_bytes) + " bytes do not hold " +
                           std::to_string(num_elements) + " values");
}

bool is_finite_half(std::uint32_t half) { return (half & 0x7C00U) != 0x7C00U; }

bool are_finite_scales(BlockFormat format, Block block) {
  switch (format) {
    case BlockFormat::kQ6_K: return is_finite_half(u16_at(block, 208));
    case BlockFormat::kMxfp4: return byte_at(block, 0) <= kMaxMxfp4Scale;
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

void read_blocks(BlockFormat format, std::span<const std::byte> bytes, std::span<QuantizedBlock> blocks) {
  check_size(format, bytes.size(), blocks.size() * kBlockInputs);
  const BlockLayout& layout = layout_of(format);
  const ReadBlock read = reader_of(format);
  const std::size_t at_once = layout.num_elements / kBlockInputs;
  Block block = bytes.data();
  for (std::size_t i = 0; i < blocks.size(); i += at_once) {
    read(block, blocks.data() + i);
    block += layout.num_bytes;
  }
}

void write_blocks(BlockFormat format, std::span<const QuantizedBlock> blocks, std::span<std::byte> bytes) {
  check_size(format, bytes.size(), blocks.size() * kBlockInputs);
  if (format != BlockFormat::kQ8_0 && format != BlockFormat::kQ4_0)
    throw std::logic_error("blocks of " + std::string(layout_of(format).name) + " are not written");
  std::byte* out = bytes.data();
  for (const QuantizedBlock& block : blocks) {
    *out++ = static_cast<std::byte>(block.scale & 0xFFU);
    *out++ = static_cast<std::byte>(block.scale >> 8U);
    if (format == BlockFormat::kQ8_0) {
      for (const std::int8_t number : block.numbers) *out++ = static_cast<std::byte>(number);
      continue;
    }
    for (std::size_t i = 0; i < kBlockInputs / 2; ++i)
      *out++ = static_cast<std::byte>((block.numbers[i] + 8) | (block.numbers[i + 16] + 8) << 4);
  }
}

void open_blocks(BlockFormat format, std::span<const QuantizedBlock> blocks, std::span<float> values) {
  if (values.size() != blocks.size() * kBlockInputs)
    throw std::logic_error(std::to_string(blocks.size()) + " blocks do not hold " +
                           std::to_string(values.size()) + " values");
  for (std::size_t i = 0; i < blocks.size(); ++i)
    open_block(format, blocks[i], values.data() + i * kBlockInputs);
}

void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> values) {
  check_size(format, blocks.size(), values.size());
  if (is_quantized(format)) return dequantize_blocks(format, blocks, values);
  const OpenElement open = format == BlockFormat::kF32   ? open_f32
                           : format == BlockFormat::kF16 ? open_f16
                                                         : open_bf16;
  Block element = blocks.data();
  for (float& value : values) {
    open(element, &value);
    element += layout_of(format).num_bytes;
  }
}

bool has_finite_scales(BlockFormat format, std::span<const std::byte> blocks) {
  const std::size_t size = layout_of(format).num_bytes;
  for (std::size_t begin = 0; begin < blocks.size(); begin += size) {
    if (!are_finite_scales(format, blocks.data() + begin)) return false;
  }
  return true;
}

void read_mxfp4(std::span<const std::byte> nibbles, std::span<const std::byte> scales,
                std::span<QuantizedBlock> blocks) {
  constexpr std::size_t kNibbleBytes = kBlockInputs / 2;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].scale = half_of_e8m0(std::to_integer<int>(scales[i]));
    fill_numbers(blocks[i], [both = nibbles.data() + i * kNibbleBytes](std::size_t element) {
      return byte_at(both, element / 2) >> (4 * (element & 1)) & 15;
    });
  }
}

void dequantize_mxfp4(std::span<const std::byte> nibbles, std::span<const std::byte> scales,
                      std::span<float> values) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    QuantizedBlock block;
    read_mxfp4(nibbles.subspan(i * kBlockInputs / 2, kBlockInputs / 2), scales.subspan(i, 1), {&block, 1});
    open_block(BlockFormat::kMxfp4, block, values.data() + i * kBlockInputs);
  }
}

bool has_finite_mxfp4_scales(std::span<const std::byte> scales) {
  return std::all_of(scales.begin(), scales.end(),
                     [](std::byte scale) { return std::to_integer<int>(scale) <= kMaxMxfp4Scale; });
}

}  // namespace troupe
