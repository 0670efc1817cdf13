// SPDX-License-Identifier: Apache-2.0
// Numbers in f32, f16 or bf16 in the memory of a kernel under test.
#pragma once

#include <cuda_fp16.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/data_type.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"
#include "tests/gpu/cuda/kernels/device_array.hpp"

namespace troupe {

// The bits of 16-bit numbers.
inline std::vector<std::uint16_t> narrowed(DataType type, const std::vector<float>& values) {
  if (type == DataType::kBF16) return to_bf16(values);
  std::vector<std::uint16_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<std::uint16_t>(__float2half_rn(value)));
  }
  return bits;
}
inline std::vector<float> widened(DataType type, const std::vector<std::uint16_t>& bits) {
  std::vector<float> values(bits.size());
  convert_to_f32(type, bits.data(), values.data(), bits.size());
  return values;
}

class TypedBuffer {
 public:
  TypedBuffer(DataType type, const std::vector<float>& values, std::size_t offset = 0)
      : type_(type),
        wide_(type == DataType::kF32 ? values : std::vector<float>{}, offset),
        narrow_(type == DataType::kF32 ? std::vector<std::uint16_t>{} : narrowed(type, values), offset) {}

  void* data() {
    return type_ == DataType::kF32 ? static_cast<void*>(wide_.data()) : static_cast<void*>(narrow_.data());
  }
  std::vector<float> values() const {
    return type_ == DataType::kF32 ? wide_.values() : widened(type_, narrow_.values());
  }

 private:
  DataType type_;
  DeviceArray<float> wide_;
  DeviceArray<std::uint16_t> narrow_;
};

// What a number of `type` may be off by after one rounding, relative to 1.
inline double rounding_of(DataType type) {
  return type == DataType::kF32 ? 0x1p-23 : type == DataType::kF16 ? 0x1p-11 : 0x1p-8;
}

inline std::vector<float> as_stored(DataType type, const std::vector<float>& values) {
  return type == DataType::kF32 ? values : widened(type, narrowed(type, values));
}

inline constexpr DataType kElementTypes[] = {DataType::kF32, DataType::kF16, DataType::kBF16};

}  // namespace troupe
