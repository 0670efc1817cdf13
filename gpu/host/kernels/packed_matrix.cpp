// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/kernels/packed_matrix.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "gpu/host/kernels/kernel_table.hpp"

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

}  // namespace

std::size_t PackedMatrix::packed_bytes(std::size_t num_outputs, std::size_t num_inputs, DataType type) {
  const std::size_t num_panels = (num_outputs + kPanelWidth - 1) / kPanelWidth;
  const std::size_t num_units = type == DataType::kBF16 ? (num_inputs + 1) / 2 : num_inputs;
  return num_panels * num_units * kUnitBytes;
}

PackedMatrix::PackedMatrix(std::vector<MatrixSource> sources, std::size_t num_inputs, DataType type)
    : sources_(std::move(sources)), num_inputs_(num_inputs), type_(type) {
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
  const std::size_t inputs_at_once = type_ == DataType::kBF16 ? 2 * kUnitsAtOnce : kUnitsAtOnce;
  const std::size_t panel_bytes = num_units() * kUnitBytes;
  const std::size_t last = std::min(num_panels(), (task + 1) * kPanelsPerTask);
  for (std::size_t panel = task * kPanelsPerTask; panel < last; ++panel) {
    std::byte* const memory = memory_.get() + panel * panel_bytes;
    const bool is_ragged = (panel + 1) * kPanelWidth > num_outputs_;
    if (is_ragged) std::memset(memory, 0, panel_bytes);
    for (std::size_t first = 0; first < num_inputs_; first += inputs_at_once) {
      const std::size_t count = std::min(inputs_at_once, num_inputs_ - first);
      std::byte* const unit = memory + first / (type_ == DataType::kBF16 ? 2 : 1) * kUnitBytes;
      for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
        DataType row_type = DataType::kF32;
        const void* row = find_row(sources_, num_inputs_, panel * kPanelWidth + lane, row_type);
        if (row != nullptr) pack_lane(row, row_type, first, count, type_, unit + lane * 4);
      }
    }
  }
}

}  // namespace troupe
