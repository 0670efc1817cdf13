// SPDX-License-Identifier: Apache-2.0
// c = a · weightᵀ (+ bias) for up to 16 tokens, where the time is that of reading
// the weight once: it streams through the tensor cores straight from memory,
// 16 outputs a block, each warp every eighth part of the depth.
//
// An output is summed in one order that depends on the depth alone, so a token's
// results are the same bits whatever other tokens are beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

inline constexpr std::uint32_t kMostFewTokens = 16;

// Device pointers; strides in elements. Rows of `a` and `weight` begin at
// multiples of 16 bytes, and the depth is a multiple of 8.
struct FewTokenProductArguments {
  const void* a = nullptr;  // [num_tokens, depth], bf16
  std::size_t a_stride = 0;
  const void* weight = nullptr;  // [num_outputs, depth], bf16
  std::size_t weight_stride = 0;
  const float* bias = nullptr;  // [num_outputs], or none
  void* c = nullptr;            // [num_tokens, num_outputs] of `c_type`
  std::size_t c_stride = 0;
  DataType c_type = DataType::kBF16;  // kF32 or kBF16
  std::uint32_t num_tokens = 0;       // at most kMostFewTokens
  std::uint32_t num_outputs = 0;
  std::uint32_t depth = 0;
};

// Throws CudaError; std::invalid_argument for what does not fit the above. Any
// thread.
void launch_few_token_product(const FewTokenProductArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
