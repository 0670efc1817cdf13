// SPDX-License-Identifier: Apache-2.0
// Numbers in f32 or bf16 in the memory of a kernel under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/data_type.hpp"
#include "tests/gpu/cuda/kernels/device_array.hpp"
#include "tests/gpu/kernels/random_values.hpp"

namespace troupe {

class TypedBuffer {
 public:
  TypedBuffer(DataType type, const std::vector<float>& values, std::size_t offset = 0)
      : type_(type),
        wide_(type == DataType::kF32 ? values : std::vector<float>{}, offset),
        narrow_(type == DataType::kBF16 ? to_bf16(values) : std::vector<std::uint16_t>{}, offset) {}

  void* data() {
    return type_ == DataType::kF32 ? static_cast<void*>(wide_.data())
                                   : static_cast<void*>(narrow_.data());
  }
  std::vector<float> values() const {
    return type_ == DataType::kF32 ? wide_.values() : to_f32(narrow_.values());
  }

 private:
  DataType type_;
  DeviceArray<float> wide_;
  DeviceArray<std::uint16_t> narrow_;
};

// What a number of `type` may be off by after one rounding, relative to 1.
inline double rounding_of(DataType type) { return type == DataType::kF32 ? 0x1p-23 : 0x1p-8; }

inline std::vector<float> as_stored(DataType type, const std::vector<float>& values) {
  return type == DataType::kF32 ? values : to_f32(to_bf16(values));
}

inline constexpr DataType kElementTypes[] = {DataType::kF32, DataType::kBF16};

}  // namespace troupe
