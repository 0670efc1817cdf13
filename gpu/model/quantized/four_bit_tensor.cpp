// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/quantized/four_bit_tensor.hpp"

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::uint64_t kCodesAWord = 8;
constexpr int kMiddle = 8;  // the zero point of symmetric weights
// Of code minus zero point: codes are 0 to 15, zero points 0 to 16.
constexpr float kLargestDifference = 16.0F;

// Where AWQ puts the outputs of a word, in codes.
constexpr std::array<unsigned, kCodesAWord> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

using Shape = std::vector<std::uint64_t>;

class FourBitTensor final : public PackedTensor {
 public:
  explicit FourBitTensor(FourBitParts parts)
      : parts_(std::move(parts)), num_rows_(parts_.num_rows()), num_columns_(parts_.num_columns()) {
    find_groups();
    format_ = find_format();
  }

  std::vector<std::uint64_t> shape() const override { return {num_rows_, num_columns_}; }
  void open_row(std::size_t row, std::span<float> values) const override {
    std::vector<float> scales;  // by group
    std::vector<int> zeros;
    for (std::size_t group = 0; group < parts_.scales.shape[0]; ++group) {
      scales.push_back(parts_.scales.number(group * num_rows_ + row));
      zeros.push_back(zero_at(row, group));
    }
    for (std::size_t column = 0; column < values.size(); ++column) {
      const std::size_t group = group_of(column);
      values[column] = scales[group] * static_cast<float>(code_at(row, column) - zeros[group]);
    }
  }
  std::optional<BlockFormat> block_format() const override { return format_; }
  void read_blocks(std::size_t row, std::size_t first_block,
                   std::span<QuantizedBlock> blocks) const override {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::size_t begin = (first_block + i) * kBlockInputs, group = group_of(begin);
      const int zero = zero_at(row, group);
      blocks[i] = {.scale = parts_.scales.half(group * num_rows_ + row)};
      for (std::size_t element = 0; element < kBlockInputs; ++element)
        blocks[i].numbers[element] = static_cast<std::int8_t>(code_at(row, begin + element) - zero);
    }
  }
  bool is_finite() const override {
    return parts_.scales.has_finite_products(kLargestDifference) || has_finite_rows();
  }

 private:
  // Those of g_idx, unless they are in order.
  void find_groups() {
    if (!parts_.groups) return;
    bool are_in_order = true;
    std::vector<std::uint32_t> groups;
    for (std::uint64_t column = 0; column < num_columns_; ++column) {
      groups.push_back(parts_.groups->word(column));
      if (groups.back() >= parts_.scales.shape[0])
        throw std::runtime_error("g_idx names group " + std::to_string(groups.back()) + " of " +
                                 std::to_string(parts_.scales.shape[0]));
      are_in_order = are_in_order && groups.back() == column / parts_.group_size;
    }
    if (!are_in_order) groups_ = std::move(groups);
  }

  std::optional<BlockFormat> find_format() const {
    const bool are_whole = parts_.group_size % kBlockInputs == 0 && num_columns_ % kBlockInputs == 0;
    if (!groups_.empty() || !are_whole || parts_.scales.type != DataType::kF16) return std::nullopt;
    for (std::size_t group = 0; group < parts_.scales.shape[0]; ++group) {
      for (std::size_t row = 0; row < num_rows_; ++row)
        if (zero_at(row, group) != kMiddle) return BlockFormat::kQ5_0;
    }
    return BlockFormat::kQ4_0;
  }

  std::size_t group_of(std::size_t column) const {
    return groups_.empty() ? column / parts_.group_size : groups_[column];
  }
  // Of words that are packed along rows.
  int along_rows(const RawTensor& words, std::size_t line, std::size_t row) const {
    const unsigned in_word = row % kCodesAWord;
    const unsigned place = parts_.packing == FourBitPacking::kAwq ? kAwqPlaces[in_word] : in_word;
    return static_cast<int>(words.word(line * (num_rows_ / kCodesAWord) + row / kCodesAWord) >> (4 * place) &
                            15U);
  }
  int code_at(std::size_t row, std::size_t column) const {
    if (parts_.packing == FourBitPacking::kAwq) return along_rows(parts_.codes, column, row);
    const std::uint32_t word = parts_.codes.word(column / kCodesAWord * num_rows_ + row);
    return static_cast<int>(word >> (4 * (column % kCodesAWord)) & 15U);
  }
  int zero_at(std::size_t row, std::size_t group) const {
    return along_rows(parts_.zeros, group, row) + static_cast<int>(parts_.added_zero);
  }

  FourBitParts parts_;
  std::uint64_t num_rows_, num_columns_;
  std::vector<std::uint32_t> groups_;  // by column; empty: in order
  std::optional<BlockFormat> format_;
};

void check(bool fits, const char* tensor, const char* expected) {
  if (!fits) throw std::runtime_error(std::string(tensor) + " is not " + expected);
}

}  // namespace

std::uint64_t FourBitParts::num_rows() const {
  return packing == FourBitPacking::kAwq ? codes.shape[1] * kCodesAWord : codes.shape[1];
}

std::uint64_t FourBitParts::num_columns() const {
  return packing == FourBitPacking::kAwq ? codes.shape[0] : codes.shape[0] * kCodesAWord;
}

std::shared_ptr<const PackedTensor> make_four_bit_tensor(FourBitParts parts) {
  const bool are_codes = parts.codes.type == DataType::kI32 && parts.codes.shape.size() == 2 &&
                         parts.codes.shape[0] > 0 && parts.codes.shape[1] > 0;
  check(are_codes, "qweight", "a matrix of I32");
  const std::uint64_t rows = parts.num_rows(), columns = parts.num_columns();
  check(rows % kCodesAWord == 0, "qweight", "of a multiple of 8 outputs");
  check(columns <= std::numeric_limits<std::uint32_t>::max(), "qweight", "of fewer than 2^32 inputs");
  if (parts.group_size == 0 || parts.group_size > columns)
    parts.group_size = static_cast<std::uint32_t>(columns);
  const std::uint64_t groups = (columns + parts.group_size - 1) / parts.group_size;
  check(parts.zeros.type == DataType::kI32 && parts.zeros.shape == Shape{groups, rows / kCodesAWord},
        "qzeros", "I32 of [groups, outputs / 8]");
  check(parts.scales.is_float() && parts.scales.shape == Shape{groups, rows}, "scales",
        "F16, BF16 or F32 of [groups, outputs]");
  check(!parts.groups || (parts.groups->type == DataType::kI32 && parts.groups->shape == Shape{columns}),
        "g_idx", "I32 of [inputs]");
  return std::make_shared<FourBitTensor>(std::move(parts));
}

}  // namespace troupe
