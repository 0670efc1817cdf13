// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/packed_matrix.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kPanelsPerTask = 8;
constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Units packed at a time: 32 rows' worth of them stay in the first-level cache.
constexpr std::size_t kUnitsAtOnce = 64;

// Large matrices are read at memory speed: fewer address translations.
void ask_for_huge_pages(std::byte* memory, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + size) / kHugePage * kHugePage;
  // Only a hint: a kernel without huge pages refuses it, and nothing is lost.
  if (last > first) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// The source that holds row `row` of the stacked matrix, or nullptr for padding.
const void* find_row(const std::vector<MatrixSource>& sources, std::size_t num_inputs, std::size_t row,
                     DataType& type) {
  for (const auto& source : sources) {
    if (row < source.num_rows) {
      const std::size_t stride = source.row_stride == 0 ? num_inputs : source.row_stride;
      type = source.type;
      return static_cast<const std::byte*>(source.values) + row * stride * size_of(source.type);
    }
    row -= source.num_rows;
  }
  return nullptr;
}

// One lane of some consecutive units: one row's weights from input `first` on.
void pack_lane(const void* row, DataType row_type, std::size_t first, std::size_t count, DataType type,
               std::byte* lane) {
  const auto& kernels = kernel_table(best_isa());
  const void* from = static_cast<const std::byte*>(row) + first * size_of(row_type);
  std::array<std::uint32_t, kUnitsAtOnce> units{};
  std::size_t num_units = count;
  if (type == DataType::kBF16) {
    std::array<std::uint16_t, 2 * kUnitsAtOnce> pairs{};
    kernels.to_bf16(row_type, from, pairs.data(), count);
    std::memcpy(units.data(), pairs.data(), sizeof(pairs));
    num_units = (count + 1) / 2;
  } else {
    std::array<float, kUnitsAtOnce> values{};
    kernels.to_f32(row_type, from, values.data(), count);
    std::memcpy(units.data(), values.data(), sizeof(values));
  }
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    std::memcpy(lane + unit * PackedMatrix::kUnitBytes, &units[unit], 4);
  }
}

// Blocks of one output at a time that are quantized before the next output's turn.
constexpr std::size_t kBlocksAtOnce = 8;

std::size_t block_bytes(Quantization quantization) {
  return quantization == Quantization::kQ8 ? kQ8BlockBytes : kQ4BlockBytes;
}

// Into one output's place in a panel's block.
void put_block(const QuantizedBlock& block, Quantization quantization, std::size_t output, std::byte* panel) {
  std::memcpy(panel + output * sizeof(block.scale), &block.scale, sizeof(block.scale));
  std::byte* const weights = panel + kBlockScaleBytes;
  if (quantization == Quantization::kQ8) {
    for (std::size_t k = 0; k < kBlockInputs; ++k)
      weights[k * PackedMatrix::kPanelWidth + output] = static_cast<std::byte>(block.weights[k]);
    return;
  }
  for (std::size_t group = 0; group < kBlockInputs / 8; ++group) {
    std::uint32_t lane = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const auto nibble = static_cast<std::uint32_t>(block.weights[8 * group + k] & 15);
      lane |= nibble << (k / 2 * 4 + k % 2 * 16);
    }
    std::memcpy(weights + group * PackedMatrix::kUnitBytes + output * sizeof(lane), &lane, sizeof(lane));
  }
}

QuantizedBlock quantized(const void* row, DataType row_type, std::size_t first, std::size_t count,
                         Quantization quantization) {
  const auto& kernels = kernel_table(best_isa());
  std::array<float, kBlockInputs> values{};
  kernels.to_f32(row_type, static_cast<const std::byte*>(row) + first * size_of(row_type), values.data(),
                 count);
  QuantizedBlock block;
  if (!kernels.quantize(quantization, values.data(), block)) {
    throw std::range_error("has a value that is too large for blocks of " +
                           std::string(name_of(quantization)));
  }
  return block;
}

}  // namespace

std::size_t PackedMatrix::packed_bytes(std::size_t num_outputs, std::size_t num_inputs, DataType type,
                                       Quantization quantization) {
  const std::size_t num_panels = (num_outputs + kPanelWidth - 1) / kPanelWidth;
  if (quantization != Quantization::kNone)
    return num_panels * ((num_inputs + kBlockInputs - 1) / kBlockInputs) * block_bytes(quantization);
  const std::size_t num_units = type == DataType::kBF16 ? (num_inputs + 1) / 2 : num_inputs;
  return num_panels * num_units * kUnitBytes;
}

PackedMatrix::PackedMatrix(std::vector<MatrixSource> sources, std::size_t num_inputs, DataType type,
                           Quantization quantization)
    : sources_(std::move(sources)), num_inputs_(num_inputs), type_(type), quantization_(quantization) {
  for (const auto& source : sources_) num_outputs_ += source.num_rows;
  const std::size_t size = size_bytes();
  memory_.reset(static_cast<std::byte*>(::operator new(size, kAlignment)));
  ask_for_huge_pages(memory_.get(), size);
}

void PackedMatrix::Release::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

std::size_t PackedMatrix::num_pack_tasks() const {
  return (num_panels() + kPanelsPerTask - 1) / kPanelsPerTask;
}

void PackedMatrix::run_pack_task(std::size_t task) {
  const std::size_t last = std::min(num_panels(), (task + 1) * kPanelsPerTask);
  for (std::size_t panel = task * kPanelsPerTask; panel < last; ++panel) {
    const bool is_ragged = (panel + 1) * kPanelWidth > num_outputs_;
    if (is_ragged) std::memset(memory_.get() + panel * panel_bytes(), 0, panel_bytes());
    quantization_ == Quantization::kNone ? pack_panel(panel) : quantize_panel(panel);
  }
}

void PackedMatrix::pack_panel(std::size_t index) {
  const std::size_t inputs_at_once = type_ == DataType::kBF16 ? 2 * kUnitsAtOnce : kUnitsAtOnce;
  std::byte* const memory = memory_.get() + index * panel_bytes();
  for (std::size_t first = 0; first < num_inputs_; first += inputs_at_once) {
    const std::size_t count = std::min(inputs_at_once, num_inputs_ - first);
    std::byte* const unit = memory + first / (type_ == DataType::kBF16 ? 2 : 1) * kUnitBytes;
    for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
      DataType row_type = DataType::kF32;
      const void* row = find_row(sources_, num_inputs_, index * kPanelWidth + lane, row_type);
      if (row != nullptr) pack_lane(row, row_type, first, count, type_, unit + lane * 4);
    }
  }
}

void PackedMatrix::quantize_panel(std::size_t index) {
  std::byte* const memory = memory_.get() + index * panel_bytes();
  constexpr std::size_t kInputsAtOnce = kBlocksAtOnce * kBlockInputs;
  for (std::size_t strip = 0; strip < num_inputs_; strip += kInputsAtOnce) {
    const std::size_t end = std::min(strip + kInputsAtOnce, num_inputs_);
    for (std::size_t output = 0; output < kPanelWidth; ++output) {
      DataType row_type = DataType::kF32;
      const void* row = find_row(sources_, num_inputs_, index * kPanelWidth + output, row_type);
      if (row == nullptr) continue;
      for (std::size_t first = strip; first < end; first += kBlockInputs) {
        const std::size_t count = std::min(kBlockInputs, end - first);
        put_block(quantized(row, row_type, first, count, quantization_), quantization_, output,
                  memory + first / kBlockInputs * block_bytes(quantization_));
      }
    }
  }
}

}  // namespace troupe
