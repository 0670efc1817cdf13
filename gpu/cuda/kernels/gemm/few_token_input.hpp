// SPDX-License-Identifier: Apache-2.0
// Common to products (GEMMs) of few tokens: a · weightᵀ for up to 64 tokens,
// where the time should be that of reading the weight once. They differ in what
// becomes of the sums: few_token_gemm.hpp stores them, the others finish what
// follows in a layer, so that a layer of a decoder is five or six kernels:
//
//   qkv_gemm.hpp       rotary embedding, append to the KV pages
//   (attention, its merge)
//   residual_gemm.hpp  x += sums, and the next product's input
//   gated_gemm.hpp     silu(gate) * up
//   residual_gemm.hpp
//
// RMSNorm has no kernel of its own: x * norm_weight is stored before anything is
// known of the row, with sums of squares of each 32 columns, and the next product
// multiplies its sums by 1 / sqrt(mean(x²) + epsilon). bf16 rounds alike before
// and after that factor; in f16, x * norm_weight must stay below 65504.
//
// Weights stay in their ordinary order: a block takes the rows that belong
// together from where they are.
//
// Sums have one order, which depends on the numbers of outputs and of depth and
// on whether there are up to 8, 16, 32 or 64 tokens. So a token's results are the
// same bits whatever other tokens are beside it, within these four.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/data_type.hpp"

namespace troupe::cuda {

inline constexpr std::uint32_t kMostFewTokens = 64;

// Columns whose squares are summed together.
inline constexpr std::uint32_t kColumnsOfSquares = 32;
constexpr std::uint32_t num_square_parts(std::uint32_t width) {
  return (width + kColumnsOfSquares - 1) / kColumnsOfSquares;
}

// Enough for every product. Zeroed once, by its owner; products leave it ready
// for the next one of the same stream, and two at once need two.
inline constexpr std::size_t kFewTokenWorkspaceBytes = std::size_t{8} << 20;

// Device pointers; strides in elements. Rows of `a` and `weight` begin at
// multiples of 16 bytes.
struct FewTokenInput {
  const void* a = nullptr;  // [num_tokens, depth] of `type`
  std::size_t a_stride = 0;
  const void* weight = nullptr;  // [num_outputs, depth] of `type`
  std::size_t weight_stride = 0;
  const float* bias = nullptr;  // [num_outputs], or none
  // [num_tokens, num_square_parts(depth)]: sums of squares of the row before the
  // norm; or none, then nothing is scaled.
  const float* squares = nullptr;
  float epsilon = 1e-5F;
  DataType type = DataType::kBF16;  // kBF16 or kF16
  std::uint32_t num_tokens = 0;     // at most kMostFewTokens
  std::uint32_t num_outputs = 0;
  std::uint32_t depth = 0;  // a multiple of 8
  // kFewTokenWorkspaceBytes; or none, where outputs alone keep a GPU busy.
  std::byte* workspace = nullptr;
  // Weights may be read while the kernel before in the stream still runs, which
  // must not write them (programmatic dependent launch; sm_90 and later).
  bool overlaps_previous = false;
};

// True if shapes and strides are as above.
constexpr bool can_multiply_few_tokens(const FewTokenInput& input) {
  return (input.type == DataType::kBF16 || input.type == DataType::kF16) &&
         input.num_tokens <= kMostFewTokens && input.depth % 8 == 0 && input.a_stride % 8 == 0 &&
         input.weight_stride % 8 == 0;
}

}  // namespace troupe::cuda
