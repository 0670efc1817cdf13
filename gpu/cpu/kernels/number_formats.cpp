// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/number_formats.hpp"

#include <bit>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {

float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float f32_from_f16(std::uint16_t bits) {
  float value = 0.0F;
  kernel_table(Isa::kPortable).to_f32(DataType::kF16, &bits, &value, 1);
  return value;
}

std::uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

void convert_to_f32(DataType source_type, const void* source, float* target, std::size_t count, Isa isa) {
  kernel_table(isa).to_f32(source_type, source, target, count);
}

void convert_to_bf16(DataType source_type, const void* source, std::uint16_t* target, std::size_t count,
                     Isa isa) {
  kernel_table(isa).to_bf16(source_type, source, target, count);
}

}  // namespace troupe
