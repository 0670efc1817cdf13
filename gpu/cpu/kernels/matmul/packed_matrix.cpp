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

constexpr std::size_t lane_bytes(BlockFormat format) { return format == BlockFormat::kF16 ? 2 : 4; }
constexpr std::size_t unit_bytes(BlockFormat format) {
  return PackedMatrix::kPanelWidth * lane_bytes(format);
}

void pack_f16_lane(const std::byte* from, std::size_t count, std::byte* lane) {
  for (std::size_t k = 0; k < count; ++k)
    std::memcpy(lane + k * unit_bytes(BlockFormat::kF16), from + k * 2, 2);
}

// One lane of some consecutive units: one row's weights from input `first` on.
void pack_lane(const void* row, DataType row_type, std::size_t first, std::size_t count, BlockFormat format,
               std::byte* lane) {
  const auto* from = static_cast<const std::byte*>(row) + first * size_of(row_type);
  if (format == BlockFormat::kF16) return pack_f16_lane(from, count, lane);
  const auto& kernels = kernel_table(best_isa());
  std::array<std::uint32_t, kUnitsAtOnce> units{};
  std::size_t num_units = count;
  if (format == BlockFormat::kBF16) {
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
    std::memcpy(lane + unit * unit_bytes(format), &units[unit], 4);
  }
}

std::size_t num_rows_of(const std::vector<MatrixSource>& sources) {
  std::size_t sum = 0;
  for (const auto& source : sources) sum += source.num_rows;
  return sum;
}

std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

// Numbers of fewer than 8 bits: nibbles in one plane, the bits above them in another.
void put_numbers(const QuantizedBlock& block, std::size_t high_bits, std::byte* high, std::byte* nibbles) {
  std::array<std::uint32_t, kBlockInputs / 8> low_lanes{};
  std::array<std::uint32_t, 2> high_lanes{};
  for (std::size_t k = 0; k < kBlockInputs; ++k) {
    const auto number = static_cast<std::uint32_t>(static_cast<std::uint8_t>(block.numbers[k]));
    const std::size_t half = k % 2 * 16;
    low_lanes[k / 8] |= (number & 15U) << (k % 8 / 2 * 4 + half);
    const std::size_t bit = k / 2 * high_bits;
    high_lanes[bit / 16] |= (number >> 4 & ((1U << high_bits) - 1)) << (bit % 16 + half);
  }
  for (std::size_t i = 0; i < low_lanes.size(); ++i)
    std::memcpy(nibbles + i * kBlockLanesBytes, &low_lanes[i], sizeof low_lanes[i]);
  for (std::size_t i = 0; i < high_bits; ++i)
    std::memcpy(high + i * kBlockLanesBytes, &high_lanes[i], sizeof high_lanes[i]);
}

// Into one output's place in a panel's block, whose head is that of its super-block.
void put_block(const QuantizedBlock& block, const PanelBlocks& layout, std::size_t output, std::byte* head,
               std::byte* panel) {
  std::byte* const scales = layout.head_bytes == 0 ? panel : head;
  std::memcpy(scales + output * sizeof block.scale, &block.scale, sizeof block.scale);
  if (layout.has_minimum)
    std::memcpy(scales + (kBlockOutputs + output) * sizeof block.minimum, &block.minimum,
                sizeof block.minimum);
  if (layout.head_bytes != 0) {
    panel[output] = static_cast<std::byte>(block.factors[0]);
    panel[kBlockOutputs + output] = static_cast<std::byte>(block.factors[1]);
  }
  std::byte* const numbers = panel + layout.scale_bytes;
  if (layout.bits == 8) {
    for (std::size_t k = 0; k < kBlockInputs; ++k)
      numbers[k * kBlockOutputs + output] = static_cast<std::byte>(block.numbers[k]);
    return;
  }
  put_numbers(block, layout.bits - 4, numbers + output * 4, numbers + layout.high_bytes() + output * 4);
}

void get_numbers(const std::byte* high, const std::byte* nibbles, std::size_t high_bits, bool is_signed,
                 QuantizedBlock& block) {
  for (std::size_t k = 0; k < kBlockInputs; ++k) {
    const std::size_t half = k % 2 * 16, bit = k / 2 * high_bits;
    std::uint32_t low_lane = 0, high_lane = 0;
    std::memcpy(&low_lane, nibbles + k / 8 * kBlockLanesBytes, sizeof low_lane);
    if (high_bits > 0) std::memcpy(&high_lane, high + bit / 16 * kBlockLanesBytes, sizeof high_lane);
    const std::uint32_t above = high_lane >> (bit % 16 + half) & ((1U << high_bits) - 1);
    const auto code = static_cast<int>((low_lane >> (k % 8 / 2 * 4 + half) & 15U) | above << 4);
    const int sign = is_signed ? 8 << high_bits : 0;
    block.numbers[k] = static_cast<std::int8_t>((code ^ sign) - sign);
  }
}

// The inverse of put_block.
QuantizedBlock get_block(const PanelBlocks& layout, std::size_t output, const std::byte* head,
                         const std::byte* panel) {
  QuantizedBlock block;
  const std::byte* const scales = layout.head_bytes == 0 ? panel : head;
  std::memcpy(&block.scale, scales + output * sizeof block.scale, sizeof block.scale);
  if (layout.has_minimum)
    std::memcpy(&block.minimum, scales + (kBlockOutputs + output) * sizeof block.minimum,
                sizeof block.minimum);
  if (layout.head_bytes != 0) {
    block.factors[0] = std::to_integer<std::uint8_t>(panel[output]);
    block.factors[1] = std::to_integer<std::uint8_t>(panel[kBlockOutputs + output]);
  }
  const std::byte* const numbers = panel + layout.scale_bytes;
  if (layout.bits == 8) {
    for (std::size_t k = 0; k < kBlockInputs; ++k)
      block.numbers[k] = static_cast<std::int8_t>(numbers[k * kBlockOutputs + output]);
    return block;
  }
  get_numbers(numbers + output * 4, numbers + layout.high_bytes() + output * 4, layout.bits - 4,
              layout.is_signed, block);
  return block;
}

}  // namespace

std::size_t PackedMatrix::packed_bytes(std::size_t num_outputs, std::size_t num_inputs, BlockFormat format) {
  const std::size_t num_panels = divide_up(num_outputs, kPanelWidth);
  if (is_quantized(format)) {
    const PanelBlocks layout = panel_blocks(format);
    return num_panels * divide_up(num_inputs, kBlockInputs * layout.super_blocks()) * layout.super_bytes();
  }
  const std::size_t num_units = format == BlockFormat::kBF16 ? divide_up(num_inputs, 2) : num_inputs;
  return num_panels * num_units * unit_bytes(format);
}

PackedMatrix::PackedMatrix(const std::vector<MatrixSource>& sources, std::size_t num_inputs,
                           BlockFormat format)
    : PackedMatrix(num_rows_of(sources), num_inputs, format) {
  set_sources(sources);
}

PackedMatrix::PackedMatrix(std::size_t num_outputs, std::size_t num_inputs, BlockFormat format)
    : num_outputs_(num_outputs), num_inputs_(num_inputs), format_(format) {
  if (is_quantized(format) && format != BlockFormat::kQ8_0 && format != BlockFormat::kQ4_0)
    throw std::logic_error("values are packed as F32, F16, BF16, Q8_0 or Q4_0");
  allocate();
}

PackedMatrix::PackedMatrix(ReadBlocks read, std::size_t num_outputs, std::size_t num_inputs,
                           BlockFormat format)
    : read_(std::move(read)),
      end_row_(num_outputs),
      num_outputs_(num_outputs),
      num_inputs_(num_inputs),
      format_(format) {
  if (!is_quantized(format) || num_inputs % (kBlockInputs * panel_blocks(format).super_blocks()) != 0)
    throw std::logic_error("rows of " + std::to_string(num_inputs) + " weights are not of whole blocks");
  allocate();
}

PackedMatrix::PackedMatrix(const std::byte* packed, std::size_t num_outputs, std::size_t num_inputs,
                           BlockFormat format)
    : first_row_(num_outputs),
      end_row_(num_outputs),
      num_outputs_(num_outputs),
      num_inputs_(num_inputs),
      format_(format),
      packed_(packed) {}

void PackedMatrix::set_sources(const std::vector<MatrixSource>& sources) {
  const std::size_t num_rows = num_rows_of(sources);
  if (end_row_ % kPanelWidth != 0 || num_rows > num_outputs_ - end_row_)
    throw std::logic_error(std::to_string(num_rows) + " rows from " + std::to_string(end_row_) + " on of " +
                           std::to_string(num_outputs_) + " can't be packed in panels");
  const bool are_f16 = std::all_of(sources.begin(), sources.end(),
                                   [](const auto& source) { return source.type == DataType::kF16; });
  if (format_ == BlockFormat::kF16 && !are_f16)
    throw std::logic_error("values of other types are not rounded to F16");
  first_row_ = end_row_;
  sources_.clear();
  for (const auto& source : sources) {
    end_row_ += source.num_rows;
    sources_.push_back({source, end_row_});
  }
}

void PackedMatrix::drop_sources() {
  sources_.clear();
  read_ = nullptr;
}

const void* PackedMatrix::find_row(std::size_t row, DataType& type) const {
  const auto found =
      std::upper_bound(sources_.begin(), sources_.end(), row,
                       [](std::size_t wanted, const auto& placed) { return wanted < placed.end; });
  if (found == sources_.end()) return nullptr;
  const MatrixSource& source = found->source;
  const std::size_t stride = source.row_stride == 0 ? num_inputs_ : source.row_stride;
  const std::size_t in_source = row - (found->end - source.num_rows);
  type = source.type;
  return static_cast<const std::byte*>(source.values) + in_source * stride * size_of(source.type);
}

void PackedMatrix::allocate() {
  const std::size_t size = size_bytes();
  memory_.reset(static_cast<std::byte*>(::operator new(size, kAlignment)));
  ask_for_huge_pages(memory_.get(), size);
  packed_ = memory_.get();
}

void PackedMatrix::Release::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

std::size_t PackedMatrix::num_pack_tasks() const {
  return divide_up(divide_up(end_row_ - first_row_, kPanelWidth), kPanelsPerTask);
}

void PackedMatrix::run_pack_task(std::size_t task) {
  const std::size_t first = first_row_ / kPanelWidth + task * kPanelsPerTask;
  const std::size_t end = std::min(divide_up(end_row_, kPanelWidth), first + kPanelsPerTask);
  for (std::size_t panel = first; panel < end; ++panel) {
    const bool is_ragged = (panel + 1) * kPanelWidth > num_outputs_;
    if (is_ragged) std::memset(memory_.get() + panel * panel_bytes(), 0, panel_bytes());
    is_quantized(format_) ? pack_blocks(panel) : pack_panel(panel);
  }
}

void PackedMatrix::pack_panel(std::size_t index) {
  const std::size_t inputs_a_unit = format_ == BlockFormat::kBF16 ? 2 : 1;
  const std::size_t inputs_at_once = inputs_a_unit * kUnitsAtOnce;
  std::byte* const memory = memory_.get() + index * panel_bytes();
  for (std::size_t first = 0; first < num_inputs_; first += inputs_at_once) {
    const std::size_t count = std::min(inputs_at_once, num_inputs_ - first);
    std::byte* const unit = memory + first / inputs_a_unit * unit_bytes(format_);
    for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
      DataType row_type = DataType::kF32;
      const void* row = find_row(index * kPanelWidth + lane, row_type);
      if (row != nullptr) pack_lane(row, row_type, first, count, format_, unit + lane * lane_bytes(format_));
    }
  }
}

// As many blocks of one output as a super-block has, then the next output's turn.
void PackedMatrix::pack_blocks(std::size_t index) {
  const PanelBlocks layout = panel_blocks(format_);
  const std::size_t num_blocks = divide_up(num_inputs_, kBlockInputs);
  std::byte* const memory = memory_.get() + index * panel_bytes();
  std::array<QuantizedBlock, kSuperBlocks> blocks;
  for (std::size_t first = 0; first < num_blocks; first += kSuperBlocks) {
    const std::size_t count = std::min(kSuperBlocks, num_blocks - first);
    std::byte* const head = memory + first / layout.super_blocks() * layout.super_bytes();
    for (std::size_t output = 0; output < kPanelWidth; ++output) {
      const std::size_t row = index * kPanelWidth + output;
      if (row >= num_outputs_) break;
      const std::span<QuantizedBlock> of_row(blocks.data(), count);
      read_ ? read_(row, first, of_row) : quantize(row, first, of_row);
      for (std::size_t i = 0; i < count; ++i)
        put_block(blocks[i], layout, output, head, head + layout.head_bytes + i * layout.block_bytes());
    }
  }
}

void PackedMatrix::read_blocks(std::size_t row, std::size_t first_block,
                               std::span<QuantizedBlock> blocks) const {
  const PanelBlocks layout = panel_blocks(format_);
  const std::byte* const head =
      panel(row / kPanelWidth) + first_block / layout.super_blocks() * layout.super_bytes();
  const std::byte* block = head + layout.head_bytes;
  for (auto& into : blocks) {
    into = get_block(layout, row % kPanelWidth, head, block);
    block += layout.block_bytes();
  }
}

void PackedMatrix::quantize(std::size_t row, std::size_t first_block,
                            std::span<QuantizedBlock> blocks) const {
  const auto& kernels = kernel_table(best_isa());
  DataType type = DataType::kF32;
  const auto* values = static_cast<const std::byte*>(find_row(row, type));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t first = (first_block + i) * kBlockInputs;
    std::array<float, kBlockInputs> of_block{};
    kernels.to_f32(type, values + first * size_of(type), of_block.data(),
                   std::min(kBlockInputs, num_inputs_ - first));
    if (!kernels.quantize(format_, of_block.data(), blocks[i])) {
      throw std::range_error("has a value that is too large for blocks of " +
                             std::string(format_ == BlockFormat::kQ8_0 ? "q8" : "q4"));
    }
  }
}

}  // namespace troupe
