// SPDX-License-Identifier: Apache-2.0
// The shape of a matrix product (GEMM), and the kernel that computes it: row-major
// c[tokens, outputs] = activation(a[tokens, depth] · weight[outputs, depth]ᵗ + bias) (+ c).
//
// Kernels are chosen a bin of token counts: powers of two, and from 16 on those
// times 1.5 as well. The choice for a bin's largest count serves the whole bin,
// so that a token meets the same algorithm in all batches of its bin. It does
// not across bins, nor after a new measurement: products of the CUDA worker do
// not promise the same bits for a token in batches of different sizes. (Own
// kernels do, and what they promise is in their headers.)
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "gpu/data_type.hpp"

namespace troupe::cuda {

enum class GemmActivation : std::uint8_t {
  kNone,
  kGelu,  // by tanh, as GPT-2 has it: cuBLASLt knows no other
};

struct GemmShape {
  std::uint32_t num_tokens = 0;
  std::uint32_t num_outputs = 0;
  std::uint32_t depth = 0;
  DataType type = DataType::kBF16;    // of a and weight; kF32 is rounded to tf32 on the way, unless is_exact
  DataType c_type = DataType::kBF16;  // as `type`, or kF32
  bool has_bias = false;
  bool adds = false;  // to what c holds
  GemmActivation activation = GemmActivation::kNone;
  bool is_exact = false;  // factors of kF32 keep all their digits
  auto operator<=>(const GemmShape&) const = default;
};

// Device pointers, at multiples of 16 bytes; rows lie without gaps.
struct GemmPointers {
  const void* a = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;  // [outputs] of c's type
  void* c = nullptr;
};

enum class GemmKernel : std::uint8_t {
  kCublasLt,
  kFewTokens,  // kernels/few_token_gemm.hpp
};

struct GemmChoice {
  GemmKernel kernel = GemmKernel::kCublasLt;
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t, valid for one version only
  std::uint64_t workspace_bytes = 0;
  double microseconds = 0.0;  // 0: not measured
  auto operator<=>(const GemmChoice&) const = default;
};

// By shapes whose num_tokens is that of a bin.
using GemmChoices = std::map<GemmShape, GemmChoice>;

// The smallest bin that holds `num_tokens`: 1 2 4 8 16 24 32 48 64 96 128 …
std::uint32_t gemm_bin(std::uint32_t num_tokens);

// The same with the tokens of its bin.
GemmShape bin_of(GemmShape shape);

// Bytes that are read and written at least once, and multiplications plus additions.
std::uint64_t bytes_of(const GemmShape& shape);
std::uint64_t operations_of(const GemmShape& shape);

// "64 x 4096 x 14336 bf16 -> f32 +bias +gelu, added": tokens x outputs x depth.
std::string to_string(const GemmShape& shape);

}  // namespace troupe::cuda
