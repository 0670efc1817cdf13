// SPDX-License-Identifier: Apache-2.0
// Products of rows in 8 bits (matmul/q8_rows.hpp) with weights in blocks. Some blocks of a
// panel are opened to bytes in a buffer that stays in the cache, then multiplied by all rows.
// The sum of a block is whole numbers of 32 bits, exact in any order and in f32; it is added to
// c times the scales of both, then the minimum times the sum of a. So a row has the same bits
// in every batch.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/matmul_block.hpp"
#include "gpu/cpu/kernels/vector/quantized_tile.hpp"

namespace troupe {
namespace {

typedef std::int8_t VecB __attribute__((vector_size(kLanes * 4)));

// Rows of a tile: with AVX-512 as many as have all sums, those of a block and those of all, in registers.
#if defined(__AVX512VNNI__)
constexpr int kMaxQ8Rows = 7;
#elif defined(__AVX512F__)
constexpr int kMaxQ8Rows = 6;
#elif defined(__AVX2__)
constexpr int kMaxQ8Rows = 4;
#else
constexpr int kMaxQ8Rows = 2;
#endif
constexpr int kQ8Vectors = 2;

// A quad: four inputs of an output in the bytes of a lane.
constexpr int kBlockQuads = static_cast<int>(kBlockInputs / 4);

// sum + the products of each lane's bytes: a without sign, w with.
[[gnu::always_inline]] inline VecI add_dot(VecI sum, VecU a, VecU w) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<VecI>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(w)));
#elif defined(__AVX512F__)
  const auto bytes = reinterpret_cast<__m512i>(w);
  const __m512i even = _mm512_madd_epi16(reinterpret_cast<__m512i>(a & 0x00FF00FFU),
                                         _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8));
  const __m512i odd =
      _mm512_madd_epi16(reinterpret_cast<__m512i>(a >> 8 & 0x00FF00FFU), _mm512_srai_epi16(bytes, 8));
  return sum + (reinterpret_cast<VecI>(even) + reinterpret_cast<VecI>(odd));
#elif defined(__AVX2__)
  const auto bytes = reinterpret_cast<__m256i>(w);
  const __m256i even = _mm256_madd_epi16(reinterpret_cast<__m256i>(a & 0x00FF00FFU),
                                         _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
  const __m256i odd =
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a >> 8 & 0x00FF00FFU), _mm256_srai_epi16(bytes, 8));
  return sum + (reinterpret_cast<VecI>(even) + reinterpret_cast<VecI>(odd));
#else
  for (int byte = 0; byte < 4; ++byte)
    sum += reinterpret_cast<VecI>(a >> (8 * byte) & 0xFFU) *
           (reinterpret_cast<VecI>(w << (24 - 8 * byte)) >> 24);
  return sum;
#endif
}

// The numbers of a format by code.
template <BlockFormat kFormat>
struct ByteTable {
  alignas(16) std::int8_t numbers[16] = {};

  constexpr ByteTable() {
    for (int code = 0; code < 16; ++code) numbers[code] = static_cast<std::int8_t>(number_of(kFormat, code));
  }
};

template <BlockFormat kFormat>
inline constexpr ByteTable<kFormat> kByteTable = {};

// codes: from 0 to 15 in each byte.
inline VecU look_up_bytes(const std::int8_t* table, VecU codes) {
#if defined(__AVX512F__)
  const __m512i tables =
      _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<VecU>(_mm512_shuffle_epi8(tables, reinterpret_cast<__m512i>(codes)));
#elif defined(__AVX2__)
  const __m256i tables = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return reinterpret_cast<VecU>(_mm256_shuffle_epi8(tables, reinterpret_cast<__m256i>(codes)));
#else
  VecB bytes = reinterpret_cast<VecB>(codes);
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = table[bytes[i]];
  return reinterpret_cast<VecU>(bytes);
#endif
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

// Quad 2g of a block has the inputs 0, 4, 1, 5 of its group g of eight, quad 2g + 1 the inputs 2, 6, 3, 7.
template <BlockFormat kFormat>
[[gnu::always_inline]] inline VecU quad_of_block(const std::byte* block, int quad, int v) {
  using Weights = BlockWeights<kFormat>;
  const int group = quad / 2, odd = quad % 2;
  if constexpr (Weights::kBits == 8) {
    return quad_of_rows(
        block + Weights::kLayout.scale_bytes + (8 * group + 2 * odd) * static_cast<int>(kBlockOutputs), v);
  } else {
    constexpr int kHigh = Weights::kHighBits;
    VecU codes =
        load_u32(Weights::lanes(block, Weights::kHighBytes + group * kBlockLanesBytes, v)) >> (4 * odd) &
        0x0F0F0F0FU;
    if constexpr (kHigh > 0) {
      const int bit = group * kGroupUnits * kHigh;
      const VecU high = load_u32(Weights::lanes(block, bit / 16 * kBlockLanesBytes, v)) >> (bit % 16);
      constexpr VecU kMask = VecU{} + (((1U << kHigh) - 1) << 4) * 0x10001U;
      codes |= high << (4 - kHigh * odd) & kMask;
      codes |= high << (12 - kHigh * (2 + odd)) & kMask << 8;
      if constexpr (!Weights::kLayout.is_signed) return codes;
      const auto sign = static_cast<std::int8_t>(1 << (Weights::kBits - 1));
      return reinterpret_cast<VecU>((reinterpret_cast<VecB>(codes) ^ sign) - sign);
    } else if constexpr (Weights::kLayout.is_signed || has_table(kFormat)) {
      return look_up_bytes(kByteTable<kFormat>.numbers, codes);
    } else {
      return codes;
    }
  }
}

// A part of a block, all of it or a half that has a scale of its own, opened in units of a lane an
// output: what sums begin with, which takes away the 128 above each number of a; quads; a scale; a
// minimum.
constexpr std::size_t opened_units(int num_quads) { return static_cast<std::size_t>(num_quads) + 3; }
constexpr std::size_t kOpenedQ8Blocks = kSuperBlocks;
constexpr std::size_t kMostOpenedUnits = 2 * opened_units(kBlockQuads / 2);

inline void put_unit(std::byte* opened, int unit, int v, VecU value) {
  store(opened + unit * static_cast<int>(kUnitBytes) + v * static_cast<int>(kLanes) * 4, bits_to_f32(value));
}

template <BlockFormat kFormat>
inline void open_q8_block(const std::byte* head, const std::byte* block, std::byte* opened) {
  using Weights = BlockWeights<kFormat>;
  constexpr int kQuads = kBlockQuads / Weights::kScales;
#pragma GCC unroll 2
  for (int part = 0; part < Weights::kScales; ++part) {
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVectors; ++v) {
      VecI sum{};
#pragma GCC unroll 8
      for (int quad = 0; quad < kQuads; ++quad) {
        const VecU numbers = quad_of_block<kFormat>(block, part * kQuads + quad, v);
        sum = add_dot(sum, VecU{} + 0x80808080U, numbers);
        put_unit(opened, 1 + quad, v, numbers);
      }
      put_unit(opened, 0, v, reinterpret_cast<VecU>(-sum));
      put_unit(opened, kQuads + 1, v, f32_to_bits(Weights::scale(head, block, part, v)));
      if constexpr (Weights::kHasMinimum)
        put_unit(opened, kQuads + 2, v, f32_to_bits(Weights::minimum(head, block, v)));
    }
    opened += opened_units(kQuads) * kUnitBytes;
  }
}

inline VecU lanes_of(const std::byte* unit, int v) {
  return load_u32(unit + v * static_cast<int>(kLanes) * 4);
}

struct Q8Operands {
  Q8Rows rows;                        // from the tile's first row and block on
  const std::byte* opened = nullptr;  // the first part's column of the tile
  bool has_minimum = false;           // of blocks of one part
  std::size_t num_blocks = 0;
  float* c = nullptr;  // sums are added to it
  std::size_t c_stride = 0;
};

// The sums of a part: what they begin with, then quad after quad. `unit` ends at the part's scale.
template <int kRows, int kQuads>
[[gnu::always_inline]] inline void sum_q8_part(const std::byte*& unit, const std::uint8_t*& numbers,
                                               VecI (&sums)[kRows][kQ8Vectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kQ8Vectors; ++v) {
    const VecI begin = reinterpret_cast<VecI>(lanes_of(unit, v));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r][v] = begin;
  }
#pragma GCC unroll 8
  for (int quad = 0; quad < kQuads; ++quad) {
    unit += kUnitBytes;
    VecU weights[kQ8Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) weights[v] = lanes_of(unit, v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VecU a = VecU{} + *reinterpret_cast<const AliasU*>(numbers + r * static_cast<int>(kBlockInputs));
#pragma GCC unroll 16
      for (int v = 0; v < kQ8Vectors; ++v) sums[r][v] = add_dot(sums[r][v], a, weights[v]);
    }
    numbers += 4;
  }
  unit += kUnitBytes;
}

// Loops over rows and vectors are unrolled everywhere: an array that a loop indexes lies in memory.
template <int kRows, int kQuads>
[[gnu::noinline]] void multiply_q8_tile(const Q8Operands& t) {
  constexpr int kParts = kBlockQuads / kQuads;
  const std::uint8_t* numbers = t.rows.numbers;
  const float* scales_of_a = t.rows.scales;
  const float* sums_of_a = t.rows.sums;
  const std::byte* unit = t.opened;
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride, num_rows = t.rows.num_rows;
  VecF totals[kRows][kQ8Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) totals[r][v] = load(c + r * c_stride + v * kLanes);
  }
  for (std::size_t block = 0; block < t.num_blocks; ++block) {
    const std::uint8_t* const next = numbers + num_rows * kBlockInputs;
    for (std::size_t line = 0; line < kRows * kBlockInputs; line += 64) __builtin_prefetch(next + line);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      VecI sums[kRows][kQ8Vectors];
      sum_q8_part<kRows, kQuads>(unit, numbers, sums);
      VecF scales[kQ8Vectors];
#pragma GCC unroll 16
      for (int v = 0; v < kQ8Vectors; ++v) scales[v] = bits_to_f32(lanes_of(unit, v));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const VecF scale_of_a = broadcast(scales_of_a[r]);
#pragma GCC unroll 16
        for (int v = 0; v < kQ8Vectors; ++v)
          totals[r][v] = fma(__builtin_convertvector(sums[r][v], VecF), scales[v] * scale_of_a, totals[r][v]);
      }
      unit += kUnitBytes;
      if (t.has_minimum) {
        VecF minimums[kQ8Vectors];
#pragma GCC unroll 16
        for (int v = 0; v < kQ8Vectors; ++v) minimums[v] = bits_to_f32(lanes_of(unit, v));
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const VecF sum_of_a = broadcast(sums_of_a[r]);
#pragma GCC unroll 16
          for (int v = 0; v < kQ8Vectors; ++v) totals[r][v] = fma(minimums[v], sum_of_a, totals[r][v]);
        }
      }
      unit += kUnitBytes;
    }
    numbers = next;
    scales_of_a += num_rows;
    sums_of_a += num_rows;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kQ8Vectors; ++v) store(c + r * c_stride + v * kLanes, totals[r][v]);
  }
}

using Q8Tile = void (*)(const Q8Operands&);

// kScales: of a block.
template <int kScales>
Q8Tile q8_tile(std::size_t rows) {
  constexpr int kQuads = kBlockQuads / kScales;
  static constexpr Q8Tile kTiles[] = {
    multiply_q8_tile<1, kQuads>,
    multiply_q8_tile<2, kQuads>,
#if defined(__AVX2__)
    multiply_q8_tile<3, kQuads>,
    multiply_q8_tile<4, kQuads>,
#endif
#if defined(__AVX512F__)
    multiply_q8_tile<5, kQuads>,
    multiply_q8_tile<6, kQuads>,
#endif
#if defined(__AVX512VNNI__)
    multiply_q8_tile<7, kQuads>,
#endif
  };
  static_assert(sizeof kTiles / sizeof *kTiles == kMaxQ8Rows);
  return kTiles[rows - 1];
}

// A tile whose outputs end inside its vectors: computed in a full-sized copy.
inline void multiply_q8_ragged(Q8Tile multiply, Q8Operands t, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kWidth = kQ8Vectors * kLanes;
  float tile[kMaxQ8Rows * kWidth] = {};
  float* const c = t.c;
  const std::size_t c_stride = t.c_stride;
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(tile + r * kWidth, c + r * c_stride, columns * 4);
  t.c = tile;
  t.c_stride = kWidth;
  multiply(t);
  for (std::size_t r = 0; r < rows; ++r) __builtin_memcpy(c + r * c_stride, tile + r * kWidth, columns * 4);
}

// All rows times a panel's opened blocks.
template <int kScales>
void multiply_q8_panel(const Q8Operands& t, std::size_t num_rows, std::size_t num_columns) {
  constexpr std::size_t kWidth = kQ8Vectors * kLanes;
  const std::size_t num_tiles = (num_rows + kMaxQ8Rows - 1) / kMaxQ8Rows;
  const std::size_t tile_rows = (num_rows + num_tiles - 1) / num_tiles;
  for (std::size_t row = 0; row < num_rows; row += tile_rows) {
    const std::size_t rows = num_rows - row < tile_rows ? num_rows - row : tile_rows;
    const Q8Tile multiply = q8_tile<kScales>(rows);
    Q8Operands tile = t;
    tile.rows.numbers += row * kBlockInputs;
    tile.rows.scales += row;
    tile.rows.sums += row;
    for (std::size_t column = 0; column < num_columns; column += kWidth) {
      tile.opened = t.opened + column * sizeof(float);
      tile.c = t.c + row * t.c_stride + column;
      if (num_columns - column < kWidth) {
        multiply_q8_ragged(multiply, tile, rows, num_columns - column);
      } else {
        multiply(tile);
      }
    }
  }
}

// Blocks of one super-block at most; what comes behind them in memory is fetched.
template <BlockFormat kFormat>
const std::byte* open_q8_blocks(const std::byte* blocks, std::size_t num_blocks, std::byte* opened) {
  using Weights = BlockWeights<kFormat>;
  constexpr std::size_t kBytes = Weights::kScales * opened_units(kBlockQuads / Weights::kScales) * kUnitBytes;
  const std::byte* const head = blocks;
  blocks += Weights::kHeadBytes;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    for (std::size_t line = 0; line < Weights::kBlockBytes; line += 64)
      __builtin_prefetch(blocks + kWeightsAhead + line, 0, 2);
    open_q8_block<kFormat>(head, blocks, opened + i * kBytes);
    blocks += Weights::kBlockBytes;
  }
  return blocks;
}

template <BlockFormat kFormat>
void multiply_q8_rows(const MatmulBlock& block) {
  using Weights = BlockWeights<kFormat>;
  alignas(64) std::byte opened[kOpenedQ8Blocks * kMostOpenedUnits * kUnitBytes];
  const std::size_t num_blocks = (block.num_inputs + kBlockInputs - 1) / kBlockInputs;
  const std::byte* blocks = block.panels;
  fill_with_bias(block);
  for (std::size_t column = 0; column < block.num_columns; column += kPanelWidth) {
    const std::size_t columns =
        block.num_columns - column < kPanelWidth ? block.num_columns - column : kPanelWidth;
    for (std::size_t first = 0; first < num_blocks; first += kOpenedQ8Blocks) {
      const std::size_t count = num_blocks - first < kOpenedQ8Blocks ? num_blocks - first : kOpenedQ8Blocks;
      blocks = open_q8_blocks<kFormat>(blocks, count, opened);
      const std::size_t at = first * block.q8_rows.num_rows;
      multiply_q8_panel<Weights::kScales>({.rows = {.numbers = block.q8_rows.numbers + at * kBlockInputs,
                                                    .scales = block.q8_rows.scales + at,
                                                    .sums = block.q8_rows.sums + at,
                                                    .num_rows = block.q8_rows.num_rows},
                                           .opened = opened,
                                           .has_minimum = Weights::kHasMinimum,
                                           .num_blocks = count,
                                           .c = block.c + column,
                                           .c_stride = block.c_stride},
                                          block.num_rows, columns);
    }
  }
}

}  // namespace
}  // namespace troupe
