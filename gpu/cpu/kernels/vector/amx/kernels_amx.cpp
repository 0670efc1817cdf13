// SPDX-License-Identifier: Apache-2.0
// Products of bf16 rows with bf16 weights for AMX, all that this set computes otherwise than AVX-512 with
// bf16; its flags are in CMakeLists.txt. Rows take turns, at most 32 at a time, with all panels.
#include "gpu/cpu/kernels/vector/amx/amx_tile.hpp"
#include "gpu/cpu/kernels/vector/amx/few_rows.hpp"
#include "gpu/cpu/kernels/vector/amx/self_check.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMostAmxRows = 2 * kTileRows;

// Bytes of a row of a in a chunk. 32 rows, a panel's chunk and c stay in the first-level cache together; one
// tile of rows leaves room for longer runs of weights.
constexpr std::size_t chunk_row_bytes(std::size_t rows) { return rows <= kTileRows ? 1024 : 512; }
constexpr std::size_t kAmxRowStride = 1024 + 64;

// Two tiles of rows with the halves of a panel, or one with those of two, the last panel perhaps alone.
const TileShape& amx_shape_of(std::size_t rows) {
  constexpr auto kTwoPanels = multiply_amx_tile<SecondSums::kPanel, kAmxRowStride>;
  constexpr auto kOnePanel = multiply_amx_tile<SecondSums::kNone, kAmxRowStride>;
  constexpr auto kTwoTiles = multiply_amx_tile<SecondSums::kRows, kAmxRowStride>;
  constexpr std::size_t kRowBytes = kAmxRowStride - 64;
  static constexpr TileShape kFew = {kTwoPanels,    kOnePanel, 2 * kPanelVectors,
                                     kPanelVectors, kRowBytes, kUnitBytes};
  static constexpr TileShape kMany = {kTwoTiles,     kTwoTiles, kPanelVectors,
                                      kPanelVectors, kRowBytes, kUnitBytes};
  return rows <= kTileRows ? kFew : kMany;
}

// Some rows, at most kMostAmxRows, times some units of all panels.
struct AmxTurn {
  std::size_t row = 0, num_rows = 0;
  std::size_t unit = 0, num_units = 0;
};

void multiply_amx_rows(const MatmulBlock& block, const AmxTurn& turn) {
  alignas(64) std::byte rows_of_a[kMostAmxRows * kAmxRowStride];
  const std::size_t first = 2 * turn.unit, left = block.num_inputs - first;
  const std::size_t padded = (turn.num_units + kTileUnits - 1) / kTileUnits * kTileUnits * 2;
  for (std::size_t r = 0; r < turn.num_rows; ++r)
    copy_row<Product::kDotBf16>(block, turn.row + r, first, left < padded ? left : padded, padded,
                                rows_of_a + r * kAmxRowStride);
  multiply_panels<kMostAmxRows>(block, amx_shape_of(turn.num_rows),
                                {.a = rows_of_a,
                                 .panel = block.panels + turn.unit * kUnitBytes,
                                 .num_units = turn.num_units,
                                 .c = block.c + turn.row * block.c_stride,
                                 .c_stride = block.c_stride,
                                 .starts_at_zero = turn.unit == 0 && block.bias == nullptr},
                                turn.num_rows, (block.num_inputs + 1) / 2 * kUnitBytes, turn.row == 0);
}

// Tiles are released at the end: a thread that has none is switched as quickly as others.
void multiply_in_tiles(const MatmulBlock& block) {
  const std::size_t num_units = (block.num_inputs + 1) / 2;
  const std::size_t num_turns = (block.num_rows + kMostAmxRows - 1) / kMostAmxRows;
  const std::size_t turn_rows = (block.num_rows + num_turns - 1) / num_turns;
  const std::size_t chunk = chunk_row_bytes(turn_rows) / unit_bytes_of_a(Product::kDotBf16);
  std::size_t configured = 0;
  for (std::size_t unit = 0; unit < num_units; unit += chunk) {
    const std::size_t units = num_units - unit < chunk ? num_units - unit : chunk;
    for (std::size_t row = 0; row < block.num_rows; row += turn_rows) {
      const std::size_t rows = block.num_rows - row < turn_rows ? block.num_rows - row : turn_rows;
      if (rows != configured) {
        rows <= kTileRows ? configure_tiles(rows, rows) : configure_tiles(kTileRows, rows - kTileRows);
        configured = rows;
      }
      multiply_amx_rows(block, {row, rows, unit, units});
    }
  }
  _tile_release();
}

}  // namespace

void multiply_on_amx(const MatmulBlock& block) {
  const bool has_pairs = block.format == BlockFormat::kBF16 && block.a_type == DataType::kBF16;
  if (!has_pairs) return kAvx512Bf16Kernels.multiply(block);
  if (block.num_rows == 0) return;
  if (block.bias != nullptr || block.num_inputs == 0) fill_with_bias(block);
  block.num_rows <= kMostFewRows ? multiply_few_rows(block) : multiply_in_tiles(block);
}

bool rows_agree_on_amx() { return rows_agree(multiply_on_amx); }

}  // namespace troupe
