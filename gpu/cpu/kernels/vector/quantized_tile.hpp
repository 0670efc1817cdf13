// SPDX-License-Identifier: Apache-2.0
// The register tile of products with weights in blocks: some rows of a times some
// vectors of outputs. Each block, or half of it where that has a scale of its own, is
// summed by itself, K in order, in whole numbers as bf16 or f32, then added to c times
// its scale, and last the block's minimum times the sum of a. Weights are opened in
// registers for a few rows; for more, a block is opened once into units of bf16
// pairs, which all rows read. Both are exact, so both give the same bits.
#pragma once

#include "gpu/cpu/kernels/matmul/quantized_block.hpp"
#include "gpu/cpu/kernels/vector/matmul_tile.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

constexpr int kGroupUnits = 4;
constexpr int kBlockGroups = static_cast<int>(kBlockInputs / 8);
constexpr int kBlockUnits = kBlockGroups * kGroupUnits;

// Both exact in bf16: the high half of a float is all of it.
inline VecU bf16_pair(VecF low, VecF high) {
#if defined(__AVX512F__)
  const auto moved = reinterpret_cast<__m512i>(low);
  return reinterpret_cast<VecU>(
      _mm512_mask_alignr_epi8(reinterpret_cast<__m512i>(high), 0x3333333333333333, moved, moved, 2));
#else
  return (f32_to_bits(low) >> 16) | f32_to_bits(high);
#endif
}

// One byte a lane.
inline VecF load_i8(const std::byte* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return __builtin_convertvector(reinterpret_cast<VecI>(_mm512_maskz_cvtepi8_epi32(0xFFFF, bytes)), VecF);
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return __builtin_convertvector(reinterpret_cast<VecI>(_mm256_cvtepi8_epi32(bytes)), VecF);
#else
  VecF values{};
  for (std::size_t i = 0; i < kLanes; ++i) values[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
  return values;
#endif
}

inline VecF load_u8(const std::byte* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return __builtin_convertvector(reinterpret_cast<VecI>(_mm512_maskz_cvtepu8_epi32(0xFFFF, bytes)), VecF);
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return __builtin_convertvector(reinterpret_cast<VecI>(_mm256_cvtepu8_epi32(bytes)), VecF);
#else
  VecF values{};
  for (std::size_t i = 0; i < kLanes; ++i) values[i] = static_cast<float>(static_cast<std::uint8_t>(from[i]));
  return values;
#endif
}

constexpr bool has_table(BlockFormat format) {
  return format == BlockFormat::kIq4Nl || format == BlockFormat::kMxfp4;
}

// The whole number that a code of a format's bits stands for.
constexpr float number_of(BlockFormat format, int code) {
  if (format == BlockFormat::kIq4Nl) return kIq4NlNumbers[code];
  if (format == BlockFormat::kMxfp4) return kDoubledE2m1[code];
  const PanelBlocks layout = panel_blocks(format);
  const int bits = static_cast<int>(layout.bits);
  return static_cast<float>(layout.is_signed ? code - (code >> (bits - 1) << bits) : code);
}

// Numbers by code, again and again up to 64: bits above a code's do not matter.
template <BlockFormat kFormat>
struct CodeTable {
  alignas(64) float f32[64] = {};
  alignas(64) std::uint16_t bf16[64] = {};

  constexpr CodeTable() {
    constexpr int kCodes = 1 << panel_blocks(kFormat).bits;
    for (int i = 0; i < 64; ++i) {
      f32[i] = number_of(kFormat, i % kCodes);
      bf16[i] = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, f32[i]) >> 16);
    }
  }
};

template <BlockFormat kFormat>
inline constexpr CodeTable<kFormat> kCodeTable = {};

// 16 values by the lowest four bits of a lane.
inline VecF look_up(const float* table, VecU index) {
#if defined(__AVX512F__)
  return _mm512_maskz_permutexvar_ps(0xFFFF, reinterpret_cast<__m512i>(index), load(table));
#elif defined(__AVX2__)
  const auto lanes = reinterpret_cast<__m256i>(index);
  const VecF first = _mm256_permutevar8x32_ps(load(table), lanes);
  const VecF second = _mm256_permutevar8x32_ps(load(table + 8), lanes);
  return _mm256_blendv_ps(first, second, bits_to_f32(index << 28));
#else
  VecF values{};
  for (std::size_t i = 0; i < kLanes; ++i) values[i] = table[index[i] & 15U];
  return values;
#endif
}

// Weights as they lie in a panel. v is a vector of the panel's outputs, a unit two k's
// of a group of eight; a block's pointer is that of its scales.
template <BlockFormat kFormat>
struct BlockWeights {
  static constexpr PanelBlocks kLayout = panel_blocks(kFormat);
  static constexpr bool kHasMinimum = kLayout.has_minimum;
  static constexpr int kScales = static_cast<int>(kLayout.scales);
  static constexpr std::size_t kSuperBytes = kLayout.super_bytes();
  static constexpr std::size_t kHeadBytes = kLayout.head_bytes;
  static constexpr std::size_t kBlockBytes = kLayout.block_bytes();
  static constexpr std::size_t kNumberBytes = kLayout.number_bytes();
  static constexpr std::size_t kHighBytes = kLayout.high_bytes();
  static constexpr int kBits = static_cast<int>(kLayout.bits);
  static constexpr int kHighBits = kBits - 4;

  static const std::byte* lanes(const std::byte* block, std::size_t offset, int v) {
    return block + kLayout.scale_bytes + offset + v * static_cast<int>(kLanes) * 4;
  }

  // The codes of a unit's two k's in the lowest bits of each half of a lane, anything
  // above them.
  [[gnu::always_inline]] static VecU codes(const std::byte* block, int group, int unit, int v) {
    const VecU nibbles = load_u32(lanes(block, kHighBytes + group * kBlockLanesBytes, v)) >> (4 * unit);
    if constexpr (kHighBits == 0) {
      return nibbles;
    } else {
      const int bit = group * kGroupUnits * kHighBits;
      const VecU of_group = load_u32(lanes(block, bit / 16 * kBlockLanesBytes, v)) >> (bit % 16);
      const int shift = 4 - unit * kHighBits;
      const VecU high = shift >= 0 ? of_group << shift : of_group >> -shift;
      return (nibbles & 0x000F000FU) | (high & ~0x000F000FU);
    }
  }

  // `half`: 0 for the first k of a unit, 1 for the second.
  [[gnu::always_inline]] static VecF number(const std::byte* block, int group, int unit, int half, int v) {
    if constexpr (kBits == 8) {
      const int k = 8 * group + 2 * unit + half;
      return load_i8(block + kLayout.scale_bytes + k * static_cast<int>(kBlockOutputs) +
                     v * static_cast<int>(kLanes));
    } else {
      const VecU lane = codes(block, group, unit, v);
      if constexpr (has_table(kFormat)) {
        return look_up(kCodeTable<kFormat>.f32, half == 0 ? lane : lane >> 16);
      } else {
        const VecU at_top = lane << ((half == 0 ? 32 : 16) - kBits);
        constexpr int kShift = 32 - kBits;
        const VecI number = kLayout.is_signed ? reinterpret_cast<VecI>(at_top) >> kShift
                                              : reinterpret_cast<VecI>(at_top >> kShift);
        return __builtin_convertvector(number, VecF);
      }
    }
  }
  static VecF low(const std::byte* block, int group, int unit, int v) {
    return number(block, group, unit, 0, v);
  }
  static VecF high(const std::byte* block, int group, int unit, int v) {
    return number(block, group, unit, 1, v);
  }

  [[gnu::always_inline]] static VecU pair(const std::byte* block, int group, int unit, int v) {
#if defined(__AVX512F__)
    // A code looks up its bf16.
    if constexpr (kBits < 8) {
      const auto index = reinterpret_cast<__m512i>(codes(block, group, unit, v));
      const __m512i first = _mm512_load_si512(kCodeTable<kFormat>.bf16);
      if constexpr (kBits < 6) {
        return reinterpret_cast<VecU>(_mm512_maskz_permutexvar_epi16(0xFFFFFFFF, index, first));
      } else {
        const __m512i second = _mm512_load_si512(kCodeTable<kFormat>.bf16 + 32);
        return reinterpret_cast<VecU>(_mm512_permutex2var_epi16(first, index, second));
      }
    }
#endif
    return bf16_pair(low(block, group, unit, v), high(block, group, unit, v));
  }

  static VecF f16_at(const std::byte* from, int v) {
    return load_f16(reinterpret_cast<const std::uint16_t*>(from) + v * static_cast<int>(kLanes));
  }

  // Products of an f16 and at most 8 bits are exact.
  [[gnu::always_inline]] static VecF scale(const std::byte* head, const std::byte* block, int part, int v) {
    const std::byte* factors = block + part * static_cast<int>(kBlockOutputs) + v * static_cast<int>(kLanes);
    if constexpr (kFormat == BlockFormat::kMxfp4) {
      return load_bf16(reinterpret_cast<const std::uint16_t*>(block) + v * static_cast<int>(kLanes));
    } else if constexpr (kHeadBytes == 0) {
      return f16_at(block, v);
    } else {
      return f16_at(head, v) * (kHasMinimum ? load_u8(factors) : load_i8(factors));
    }
  }

  static int num_scales(int) { return kScales; }
  static bool has_minimum(bool) { return kHasMinimum; }

  // To be added for each k.
  [[gnu::always_inline]] static VecF minimum(const std::byte* head, const std::byte* block, int v) {
    if constexpr (!kHasMinimum) {
      return VecF{};
    } else if constexpr (kHeadBytes == 0) {
      return f16_at(block + 2 * kBlockOutputs, v);
    } else {
      const std::byte* factors = block + kBlockOutputs + v * static_cast<int>(kLanes);
      return -(f16_at(head + 2 * kBlockOutputs, v) * load_u8(factors));
    }
  }
};

// Bytes of so many blocks of a panel.
template <typename Weights>
constexpr std::size_t bytes_of_blocks(std::size_t num_blocks) {
  return num_blocks / (Weights::kHeadBytes == 0 ? 1 : kSuperBlocks) * Weights::kSuperBytes;
}

// A block that was opened: units of bf16 pairs, then two scales and a minimum in f32. One
// for all formats: the tile is told how many scales there are and if there is a minimum.
struct OpenedWeights {
  static constexpr std::size_t kHeadBytes = 0;
  static constexpr std::size_t kBlockBytes = (kBlockUnits + 3) * kUnitBytes;

  static VecF f32_at(const std::byte* block, int unit, int v) {
    return load(block + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4);
  }
  static VecU pair(const std::byte* block, int group, int unit, int v) {
    return f32_to_bits(f32_at(block, group * kGroupUnits + unit, v));
  }
  static VecF low(const std::byte* block, int group, int unit, int v) {
    return low_bf16(pair(block, group, unit, v));
  }
  static VecF high(const std::byte* block, int group, int unit, int v) {
    return high_bf16(pair(block, group, unit, v));
  }
  static VecF scale(const std::byte*, const std::byte* block, int part, int v) {
    return f32_at(block, kBlockUnits + part, v);
  }
  static VecF minimum(const std::byte*, const std::byte* block, int v) {
    return f32_at(block, kBlockUnits + 2, v);
  }
  static int num_scales(int asked) { return asked; }
  static bool has_minimum(bool asked) { return asked; }
};

template <typename Weights>
inline void open_block(const std::byte* head, const std::byte* block, std::byte* opened) {
  const auto put = [opened](int unit, int v, VecF value) {
    store(opened + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4, value);
  };
  for (int group = 0; group < kBlockGroups; ++group) {
#pragma GCC unroll 4
    for (int unit = 0; unit < kGroupUnits; ++unit) {
#pragma GCC unroll 8
      for (int v = 0; v < kPanelVectors; ++v)
        put(group * kGroupUnits + unit, v, bits_to_f32(Weights::pair(block, group, unit, v)));
    }
  }
  for (int v = 0; v < kPanelVectors; ++v) {
    for (int part = 0; part < Weights::kScales; ++part)
      put(kBlockUnits + part, v, Weights::scale(head, block, part, v));
    if constexpr (Weights::kHasMinimum) put(kBlockUnits + 2, v, Weights::minimum(head, block, v));
  }
}

struct QuantizedOperands {
  const std::byte* a = nullptr;       // packed rows, kRowStride bytes apart
  const float* sums_of_a = nullptr;   // of each block of a row, for minimums
  std::size_t sums_stride = 0;        // from row to row
  const std::byte* blocks = nullptr;  // the first super-block of the first panel
  int num_scales = 1;                 // of opened blocks
  bool has_minimum = false;           // of opened blocks
  std::size_t panel_stride = 0;       // bytes to the same block of the next panel
  std::size_t num_blocks = 0;         // of whole super-blocks
  float* c = nullptr;                 // sums are added to it
  std::size_t c_stride = 0;
};

// Bytes ahead at which weights are fetched. Opened ones are in the cache.
constexpr std::size_t kWeightsAhead = 6144;

// Every line is to be fetched, those of scales and heads, too, or memory is waited for at each.
template <std::size_t kBytes, std::size_t kBytesAhead = kWeightsAhead>
[[gnu::always_inline]] inline void fetch_ahead(const std::byte* weights) {
  if constexpr (kBytes != 0 && kBytesAhead != 0) {
#pragma GCC unroll 32
    for (std::size_t line = 0; line < kBytes; line += 64)
      __builtin_prefetch(weights + kBytesAhead + line, 0, 2);
  }
}

template <BlockFormat kFormat, int kPanels>
[[gnu::always_inline]] inline void fetch_group(BlockWeights<kFormat>,
                                               const std::byte* const (&blocks)[kPanels], int group) {
  using Weights = BlockWeights<kFormat>;
  constexpr std::size_t kGroupBytes = Weights::kNumberBytes / kBlockGroups;
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) {
    if (group == 0) fetch_ahead<Weights::kLayout.scale_bytes>(blocks[p]);
    fetch_ahead<kGroupBytes>(blocks[p] + Weights::kLayout.scale_bytes + group * kGroupBytes);
  }
}

template <int kPanels>
inline void fetch_group(OpenedWeights, const std::byte* const (&)[kPanels], int) {}

// Two k's of all rows and vectors.
template <typename Weights, Product kProduct, int kRows, int kVectors, std::size_t kRowStride, int kPanels>
[[gnu::always_inline]] inline void multiply_opened_unit(const std::byte* const (&blocks)[kPanels], int group,
                                                        int unit, const std::byte* a,
                                                        VecF (&sums)[kRows][kVectors]) {
  if constexpr (kProduct == Product::kDotBf16) {
    VecU weights[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Weights::pair(blocks[v / kPanelVectors], group, unit, v % kPanelVectors);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        multiply_unit<kProduct>(sums[r][v], weights[v], a + r * kRowStride);
      }
    }
  } else {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      VecF weights[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const std::byte* block = blocks[v / kPanelVectors];
        weights[v] = half == 0 ? Weights::low(block, group, unit, v % kPanelVectors)
                               : Weights::high(block, group, unit, v % kPanelVectors);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const VecF value = broadcast(*reinterpret_cast<const AliasF*>(a + r * kRowStride + half * 4));
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(weights[v], value, sums[r][v]);
      }
    }
  }
}

// Adds the sums of a block, or of a half, times their scales.
template <typename Weights, int kRows, int kVectors, int kPanels>
[[gnu::always_inline]] inline void add_scaled(const VecF (&sums)[kRows][kVectors],
                                              const std::byte* const (&heads)[kPanels],
                                              const std::byte* const (&blocks)[kPanels], int part,
                                              VecF (&totals)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    constexpr int kWidth = kPanelVectors;
    const VecF scale = Weights::scale(heads[v / kWidth], blocks[v / kWidth], part, v % kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) totals[r][v] = fma(sums[r][v], scale, totals[r][v]);
  }
}

// Adds a block's minimums times the sums of a. sums_of_a: of the first row.
template <typename Weights, int kRows, int kVectors, int kPanels>
[[gnu::always_inline]] inline void add_minimums(const float* sums_of_a, std::size_t sums_stride,
                                                const std::byte* const (&heads)[kPanels],
                                                const std::byte* const (&blocks)[kPanels],
                                                VecF (&totals)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    constexpr int kWidth = kPanelVectors;
    const VecF minimum = Weights::minimum(heads[v / kWidth], blocks[v / kWidth], v % kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      totals[r][v] = fma(minimum, broadcast(sums_of_a[r * sums_stride]), totals[r][v]);
  }
}

// Totals are kept side by side: rows of c may lie so that their addresses differ by
// multiples of 4 KiB, and a load then waits for the store of another row.
template <typename Weights, Product kProduct, int kRows, int kVectors, std::size_t kRowStride>
[[gnu::noinline]] void multiply_blocks(const QuantizedOperands& t) {
  constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  const int num_scales = Weights::num_scales(t.num_scales);
  const int part_groups = kBlockGroups / num_scales;
  const std::byte* a = t.a;
  const std::byte* blocks[kPanels];
  const std::byte* heads[kPanels];
  VecF totals[kRows][kVectors];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) heads[p] = blocks[p] = t.blocks + p * t.panel_stride;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) totals[r][v] = load(t.c + r * t.c_stride + v * kLanes);
  }
  for (std::size_t block = 0; block < t.num_blocks; ++block) {
    if constexpr (Weights::kHeadBytes != 0) {
      if (block % kSuperBlocks == 0) {
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) {
          heads[p] = blocks[p];
          fetch_ahead<Weights::kHeadBytes>(heads[p]);
          blocks[p] += Weights::kHeadBytes;
        }
      }
    }
    for (int part = 0; part < num_scales; ++part) {
      VecF sums[kRows][kVectors] = {};
      for (int group = part * part_groups; group < (part + 1) * part_groups; ++group) {
        fetch_group(Weights{}, blocks, group);
#pragma GCC unroll 4
        for (int unit = 0; unit < kGroupUnits; ++unit) {
          multiply_opened_unit<Weights, kProduct, kRows, kVectors, kRowStride, kPanels>(blocks, group, unit,
                                                                                        a, sums);
          a += unit_bytes_of_a(kProduct);
        }
      }
      add_scaled<Weights>(sums, heads, blocks, part, totals);
    }
    if (Weights::has_minimum(t.has_minimum))
      add_minimums<Weights>(t.sums_of_a + block, t.sums_stride, heads, blocks, totals);
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) blocks[p] += Weights::kBlockBytes;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(t.c + r * t.c_stride + v * kLanes, totals[r][v]);
  }
}

using QuantizedTile = void (*)(const QuantizedOperands&);

}  // namespace
}  // namespace troupe
