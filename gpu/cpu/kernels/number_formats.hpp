// SPDX-License-Identifier: Apache-2.0
// Conversions between f32, bf16 and f16. To bf16: round to nearest even, NaN
// stays NaN. 16-bit numbers are carried as their bits in std::uint16_t.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

float f32_from_bf16(std::uint16_t bits);
float f32_from_f16(std::uint16_t bits);
std::uint16_t bf16_from_f32(float value);

// source: kF32, kF16 or kBF16.
void convert_to_f32(DataType source_type, const void* source, float* target, std::size_t count,
                    Isa isa = best_isa());
void convert_to_bf16(DataType source_type, const void* source, std::uint16_t* target, std::size_t count,
                     Isa isa = best_isa());

}  // namespace troupe
