// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_shape.hpp"

#include <algorithm>
#include <bit>

namespace troupe::cuda {

std::uint32_t gemm_bin(std::uint32_t num_tokens) {
  constexpr std::uint32_t kLargestPower = 1U << 31;
  if (num_tokens > kLargestPower) return num_tokens;
  const std::uint32_t power = std::bit_ceil(std::max(num_tokens, 1U));
  const std::uint32_t between = power / 4 * 3;
  return power > 16 && num_tokens <= between ? between : power;
}

GemmShape bin_of(GemmShape shape) {
  shape.num_tokens = gemm_bin(shape.num_tokens);
  return shape;
}

std::uint64_t bytes_of(const GemmShape& shape) {
  const std::uint64_t tokens = shape.num_tokens, outputs = shape.num_outputs, depth = shape.depth;
  const std::uint64_t c_bytes = tokens * outputs * size_of(shape.c_type);
  return (tokens + outputs) * depth * size_of(shape.type) + (shape.adds ? 2 : 1) * c_bytes +
         (shape.has_bias ? outputs * size_of(shape.c_type) : 0);
}

std::uint64_t operations_of(const GemmShape& shape) {
  return std::uint64_t{2} * shape.num_tokens * shape.num_outputs * shape.depth;
}

std::string to_string(const GemmShape& shape) {
  std::string text = std::to_string(shape.num_tokens) + " x " + std::to_string(shape.num_outputs) + " x " +
                     std::to_string(shape.depth) + " ";
  text += name_of(shape.type);
  if (shape.is_exact) text += " exact";
  if (shape.c_type != shape.type) text.append(" -> ").append(name_of(shape.c_type));
  if (shape.has_bias) text += " +bias";
  if (shape.activation == GemmActivation::kGelu) text += " +gelu";
  if (shape.adds) text += ", added";
  return text;
}

}  // namespace troupe::cuda
