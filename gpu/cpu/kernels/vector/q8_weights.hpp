// SPDX-License-Identifier: Apache-2.0
// Weights in blocks as products with rows in 8 bits take them: codes without sign, four inputs of
// an output in the bytes of a lane. A code is the weight's number plus an offset of its format; the offset's
// products with a row are taken away again by the row's own sums. Codes are made in registers from a panel,
// or once for many rows in a buffer.
#pragma once

#include "gpu/cpu/kernels/vector/q8_dot.hpp"
#include "gpu/cpu/kernels/vector/quantized_tile.hpp"

namespace troupe {
namespace {

// A quad: four inputs of a block. Quad 2g has the inputs 0, 4, 1, 5 of its group g of eight, quad
// 2g + 1 the inputs 2, 6, 3, 7.
constexpr int kBlockQuads = static_cast<int>(kBlockInputs / 4);

constexpr VecU in_all_bytes(std::uint32_t byte) { return VecU{} + byte * 0x01010101U; }

constexpr std::uint8_t offset_of_codes(BlockFormat format) {
  if (format == BlockFormat::kIq4Nl) return 128;
  if (format == BlockFormat::kMxfp4) return 16;
  const PanelBlocks layout = panel_blocks(format);
  return layout.is_signed ? static_cast<std::uint8_t>(1U << (layout.bits - 1)) : 0;
}

// The table of a format, by code, plus the offset.
template <BlockFormat kFormat>
struct ByteTable {
  alignas(16) std::uint8_t codes[16] = {};

  constexpr ByteTable() {
    for (int code = 0; code < 16; ++code)
      codes[code] = static_cast<std::uint8_t>(number_of(kFormat, code) + offset_of_codes(kFormat));
  }
};

template <BlockFormat kFormat>
inline constexpr ByteTable<kFormat> kByteTable = {};

// No code of a format is above it.
template <BlockFormat kFormat>
constexpr int most_code() {
  if (!has_table(kFormat)) return (1 << panel_blocks(kFormat).bits) - 1;
  int most = 0;
  for (const int code : kByteTable<kFormat>.codes) most = code > most ? code : most;
  return most;
}

// The quads of rows k, k + 4, k + 1 and k + 5 of a block in 8 bits, `first` being row k's bytes.
[[gnu::always_inline]] inline VecU quad_of_rows(const std::byte* first, int v) {
  constexpr std::size_t kRow = kBlockOutputs;
#if defined(__AVX512F__)
  const VecI dwords = VecI{0, 16, 8, 24, 1, 17, 9, 25, 2, 18, 10, 26, 3, 19, 11, 27} + 4 * v;
  const __m512i rows =
      _mm512_permutex2var_epi32(reinterpret_cast<__m512i>(load_u32(first)), reinterpret_cast<__m512i>(dwords),
                                reinterpret_cast<__m512i>(load_u32(first + 4 * kRow)));
  const __m512i turned = _mm512_maskz_broadcast_i32x4(
      0xFFFF, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return reinterpret_cast<VecU>(_mm512_shuffle_epi8(rows, turned));
#elif defined(__AVX2__)
  const auto row = [first, v](std::size_t k) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first + k * kRow + v * static_cast<int>(kLanes)));
  };
  const __m128i first_pair = _mm_unpacklo_epi8(row(0), row(4)),
                second_pair = _mm_unpacklo_epi8(row(1), row(5));
  return reinterpret_cast<VecU>(_mm256_set_m128i(_mm_unpackhi_epi16(first_pair, second_pair),
                                                 _mm_unpacklo_epi16(first_pair, second_pair)));
#else
  VecU quads{};
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::byte* lane = first + v * kLanes + i;
    quads[i] = static_cast<std::uint32_t>(lane[0]) | static_cast<std::uint32_t>(lane[4 * kRow]) << 8 |
               static_cast<std::uint32_t>(lane[kRow]) << 16 |
               static_cast<std::uint32_t>(lane[5 * kRow]) << 24;
  }
  return quads;
#endif
}

// bits < 0: to the right.
[[gnu::always_inline]] inline VecU shift_left(VecU value, int bits) {
  return bits >= 0 ? value << bits : value >> -bits;
}

// Weights as they lie in a panel. v is a vector of the panel's outputs.
template <BlockFormat kFormat>
struct PackedCodes : BlockWeights<kFormat> {
  using Weights = BlockWeights<kFormat>;
  static constexpr std::uint8_t kOffset = offset_of_codes(kFormat);
  static constexpr int kMostCode = most_code<kFormat>();
  static constexpr std::size_t kBytesAhead = kWeightsAhead;

  [[gnu::always_inline]] static VecU quad(const std::byte* block, int quad, int v) {
    const int group = quad / 2, odd = quad % 2;
    if constexpr (Weights::kBits == 8) {
      const int k = 8 * group + 2 * odd;
      const std::byte* rows = block + Weights::kLayout.scale_bytes + k * static_cast<int>(kBlockOutputs);
      return quad_of_rows(rows, v) ^ in_all_bytes(kOffset);
    } else {
      const VecU lanes = load_u32(Weights::lanes(block, Weights::kHighBytes + group * kBlockLanesBytes, v));
      const VecU nibbles = (odd == 0 ? lanes : lanes >> 4) & in_all_bytes(0x0F);
      if constexpr (Weights::kBits == 4 && kOffset != 0) {  // also of Q4_0: faster than two operations
        return look_up_bytes(kByteTable<kFormat>.codes, nibbles);
      } else {
        return (nibbles | high_bits(block, group, odd, v)) ^ in_all_bytes(kOffset);
      }
    }
  }

 private:
  // A quad's bits above the fourth, in their places.
  [[gnu::always_inline]] static VecU high_bits(const std::byte* block, int group, int odd, int v) {
    constexpr int kHigh = Weights::kHighBits;
    if constexpr (kHigh == 0) {
      return VecU{};
    } else {
      const int bit = group * kGroupUnits * kHigh;
      const VecU lanes = load_u32(Weights::lanes(block, bit / 16 * kBlockLanesBytes, v));
      constexpr VecU kMask = VecU{} + (((1U << kHigh) - 1) << 4) * 0x10001U;
      return (shift_left(lanes, 4 - kHigh * odd - bit % 16) & kMask) |
             (shift_left(lanes, 12 - kHigh * (2 + odd) - bit % 16) & kMask << 8);
    }
  }
};

// Blocks opened in a buffer: quads, scales and a minimum in f32, a lane an output. One for all formats: the
// tile is told if there is a minimum.
template <int kNumScales>
struct OpenedCodes {
  static constexpr int kScales = kNumScales;
  static constexpr std::uint8_t kOffset = 128;
  static constexpr int kMostCode = 255;
  static constexpr std::size_t kHeadBytes = 0;
  static constexpr std::size_t kBlockBytes = (kBlockQuads + kNumScales + 1) * kUnitBytes;
  static constexpr std::size_t kBytesAhead = 0;

  static std::byte* unit(std::byte* block, int unit, int v) {
    return block + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4;
  }
  static VecU lanes(const std::byte* block, int unit, int v) {
    return load_u32(block + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4);
  }
  static VecU quad(const std::byte* block, int quad, int v) { return lanes(block, quad, v); }
  static VecF scale(const std::byte*, const std::byte* block, int part, int v) {
    return bits_to_f32(lanes(block, kBlockQuads + part, v));
  }
  static VecF minimum(const std::byte*, const std::byte* block, int v) {
    return bits_to_f32(lanes(block, kBlockQuads + kNumScales, v));
  }
  static bool has_minimum(bool asked) { return asked; }
};

template <BlockFormat kFormat>
inline void open_codes(const std::byte* head, const std::byte* block, std::byte* opened) {
  using Packed = PackedCodes<kFormat>;
  using Opened = OpenedCodes<Packed::kScales>;
  constexpr auto kMore = static_cast<std::uint32_t>(Opened::kOffset - Packed::kOffset);
#pragma GCC unroll 8
  for (int v = 0; v < kPanelVectors; ++v) {
#pragma GCC unroll 8
    for (int quad = 0; quad < kBlockQuads; ++quad)
      store(Opened::unit(opened, quad, v), bits_to_f32(Packed::quad(block, quad, v) + in_all_bytes(kMore)));
#pragma GCC unroll 2
    for (int part = 0; part < Packed::kScales; ++part)
      store(Opened::unit(opened, kBlockQuads + part, v), Packed::scale(head, block, part, v));
    if constexpr (Packed::kHasMinimum)
      store(Opened::unit(opened, kBlockQuads + Packed::kScales, v), Packed::minimum(head, block, v));
  }
}

}  // namespace
}  // namespace troupe
