// SPDX-License-Identifier: Apache-2.0
// A tensor of a file as it lies there, and reads of single elements of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/data_type.hpp"

namespace troupe {

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

}  // namespace troupe
