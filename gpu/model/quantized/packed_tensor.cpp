// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/quantized/packed_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/model/block_formats.hpp"

namespace troupe {

std::uint32_t RawTensor::word(std::size_t index) const {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return bits;
}

std::uint16_t RawTensor::half(std::size_t index) const {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return bits;
}

float RawTensor::number(std::size_t index) const {
  const std::size_t size = size_of(*type);
  float value = 0.0F;
  dequantize(format_of(*type), bytes.subspan(index * size, size), {&value, 1});
  return value;
}

bool RawTensor::has_finite_products(float factor) const {
  for (std::size_t i = 0; i < bytes.size() / size_of(*type); ++i) {
    if (!std::isfinite(number(i) * factor)) return false;
  }
  return true;
}

bool PackedTensor::has_finite_rows() const {
  const std::vector<std::uint64_t> size = shape();
  std::vector<float> values(size.at(1));
  for (std::uint64_t row = 0; row < size.at(0); ++row) {
    open_row(row, values);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
      return false;
  }
  return true;
}

}  // namespace troupe
