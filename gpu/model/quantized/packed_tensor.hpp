// SPDX-License-Identifier: Apache-2.0
// A matrix of a Hugging Face directory with elements in several tensors: codes, scales and perhaps zero
// points. Rows are outputs, columns inputs. The bytes are the files': valid as long as the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/block_format.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

// A tensor of a file as it lies there, and reads of single elements of it.
struct RawTensor {
  std::optional<DataType> type;  // none: another
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;  // not necessarily aligned

  bool is_float() const { return type && *type != DataType::kI32; }
  // The bits of an I32.
  std::uint32_t word(std::size_t index) const;
  // The bits of an F16 or BF16.
  std::uint16_t half(std::size_t index) const;
  // An element of a tensor that is_float().
  float number(std::size_t index) const;
  // True where each element times factor is finite in f32.
  bool has_finite_products(float factor) const;
};

// Immutable; called by several threads at once.
class PackedTensor {
 public:
  virtual ~PackedTensor() = default;
  virtual std::vector<std::uint64_t> shape() const = 0;  // [rows, columns]
  // The values that the format defines, in f32. values: [columns].
  virtual void open_row(std::size_t row, std::span<float> values) const = 0;
  // Blocks that have every value exactly; nullopt: the format has none such.
  virtual std::optional<BlockFormat> block_format() const = 0;
  // In the form of block_format(), which must not be nullopt.
  virtual void read_blocks(std::size_t row, std::size_t first_block,
                           std::span<QuantizedBlock> blocks) const = 0;
  // False where a value is infinite or not a number.
  virtual bool is_finite() const = 0;

 protected:
  // is_finite() by opening every row: for tensors whose scales alone can't tell.
  bool has_finite_rows() const;
};

}  // namespace troupe
