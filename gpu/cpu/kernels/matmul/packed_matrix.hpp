// SPDX-License-Identifier: Apache-2.0
// The weight of a matrix product, packed once when a model is loaded into the
// order in which the matmul kernels read it. The layout is the same for every
// instruction set:
//
//   panels of 32 outputs, one after the other; inside a panel one unit per step
//   along K, 32 lanes, lane j belonging to output j:
//     kF32:  lanes of 4 bytes, one step is one k;    lane = w[n][k]
//     kF16:  lanes of 2 bytes, one step is one k;    lane = w[n][k]
//     kBF16: lanes of 4 bytes, one step is two k's;  lane = w[n][2s] in the low,
//            w[n][2s + 1] in the high half (the operand order of vdpbf16ps)
//   N is padded to 32 outputs, an odd K of pairs to a full one, with zeros.
//
// Quantized, a panel is of blocks instead (quantized_block.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/block_format.hpp"
#include "gpu/cpu/kernels/matmul/quantized_block.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

// Rows of a weight as a checkpoint stores them, [num_rows, K] row-major.
struct MatrixSource {
  const void* values = nullptr;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::size_t num_rows = 0;
  std::size_t row_stride = 0;  // elements from one row to the next; 0: K
};

// Reads consecutive blocks of a row, at most 8, from a multiple of 8 on; from any threads.
using ReadBlocks =
    std::function<void(std::size_t row, std::size_t first_block, std::span<QuantizedBlock> blocks)>;

class PackedMatrix {
 public:
  static constexpr std::size_t kPanelWidth = 32;

  // Bytes that a packed [num_outputs, num_inputs] matrix occupies.
  static std::size_t packed_bytes(std::size_t num_outputs, std::size_t num_inputs, BlockFormat format);

  PackedMatrix() = default;
  // The sources are stacked by rows (q, k, v; gate, up) to one [N, K] matrix.
  // kBF16 and kF32 round to nearest even, kF16 takes sources of kF16 alone, kQ8_0 and kQ4_0 make
  // blocks of the values.
  // Allocates; the packing itself is done by the tasks below, which may run on
  // any threads, once each. The sources must stay alive until they are done.
  PackedMatrix(const std::vector<MatrixSource>& sources, std::size_t num_inputs, BlockFormat format);
  // The same, of rows that set_sources() gives some at a time.
  PackedMatrix(std::size_t num_outputs, std::size_t num_inputs, BlockFormat format);
  // Blocks that exist, in any quantized format, stay as they are. Throws std::logic_error
  // if a row is not of whole super-blocks.
  PackedMatrix(ReadBlocks read, std::size_t num_outputs, std::size_t num_inputs, BlockFormat format);
  // Packed before, in memory that outlives this object: nothing is left to do. Aligned to 64 bytes.
  PackedMatrix(const std::byte* packed, std::size_t num_outputs, std::size_t num_inputs, BlockFormat format);

  // The rows behind those given so far, for the tasks from now on. Throws std::logic_error if there
  // are no more rows, those given so far are not of whole panels, or kF16 would have to round.
  void set_sources(const std::vector<MatrixSource>& sources);
  // When the tasks are done: the matrix looks at no source any more.
  void drop_sources();

  std::size_t num_pack_tasks() const;
  // Throws std::range_error: a value is too large to be quantized.
  void run_pack_task(std::size_t task);
  void pack() {
    for (std::size_t task = 0; task < num_pack_tasks(); ++task) run_pack_task(task);
    drop_sources();
  }

  // A row's blocks again, when all is packed: as ReadBlocks gives them.
  void read_blocks(std::size_t row, std::size_t first_block, std::span<QuantizedBlock> blocks) const;

  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_inputs() const { return num_inputs_; }
  BlockFormat format() const { return format_; }
  std::size_t num_panels() const { return (num_outputs_ + kPanelWidth - 1) / kPanelWidth; }
  const std::byte* panel(std::size_t index) const { return packed_ + index * panel_bytes(); }
  std::size_t size_bytes() const { return num_panels() * panel_bytes(); }

 private:
  std::size_t panel_bytes() const { return packed_bytes(kPanelWidth, num_inputs_, format_); }
  void allocate();
  // The values of a row, and their type; null: padding.
  const void* find_row(std::size_t row, DataType& type) const;
  void pack_panel(std::size_t index);
  void pack_blocks(std::size_t index);
  void quantize(std::size_t row, std::size_t first_block, std::span<QuantizedBlock> blocks) const;

  struct Release {
    void operator()(std::byte* memory) const;
  };

  // A source and the row behind its last one.
  struct PlacedSource {
    MatrixSource source;
    std::size_t end = 0;
  };

  std::vector<PlacedSource> sources_;
  ReadBlocks read_;                          // none: blocks are made of the sources
  std::size_t first_row_ = 0, end_row_ = 0;  // of those being packed
  std::size_t num_outputs_ = 0;
  std::size_t num_inputs_ = 0;
  BlockFormat format_ = BlockFormat::kF32;
  std::unique_ptr<std::byte, Release> memory_;  // null: packed_ is not of this object
  const std::byte* packed_ = nullptr;
};

}  // namespace troupe
