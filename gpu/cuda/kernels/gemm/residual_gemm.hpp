// SPDX-License-Identifier: Apache-2.0
// The end of a sublayer for few tokens (few_token_input.hpp): x += a · weightᵀ +
// bias, and what the next product wants to read, normed but for the row's scale.
#pragma once

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct ResidualGemmArguments {
  FewTokenInput input;
  float* x = nullptr;  // [num_tokens, num_outputs]
  std::size_t x_stride = 0;
  const float* norm_weight = nullptr;  // [num_outputs], of the norm that follows
  void* next_a = nullptr;              // [num_tokens, num_outputs] of input.type: x * norm_weight
  std::size_t next_a_stride = 0;
  float* next_squares = nullptr;  // [num_tokens, num_square_parts(num_outputs)]
};

// Throws CudaError; std::invalid_argument for what does not fit the above. Any
// thread.
void launch_residual_gemm(const ResidualGemmArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
