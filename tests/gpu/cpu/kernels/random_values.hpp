// SPDX-License-Identifier: Apache-2.0
// Seeded random inputs for kernel tests, and which instruction sets to test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

namespace troupe {

inline std::vector<float> random_values(std::size_t count, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (auto& value : values) value = normal(generator);
  return values;
}

inline std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> result(values.size());
  convert_to_bf16(DataType::kF32, values.data(), result.data(), values.size());
  return result;
}

inline std::vector<float> to_f32(const std::vector<std::uint16_t>& values) {
  std::vector<float> result(values.size());
  convert_to_f32(DataType::kBF16, values.data(), result.data(), values.size());
  return result;
}

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

inline bool same_bits(const float* left, const float* right, std::size_t count) {
  return std::memcmp(left, right, count * sizeof(float)) == 0;
}

}  // namespace troupe
