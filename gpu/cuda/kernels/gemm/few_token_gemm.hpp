// SPDX-License-Identifier: Apache-2.0
// A GEMM for few tokens: c = a · weightᵀ (+ bias) for up to 64, see few_token_input.hpp.
#pragma once

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct FewTokenGemmArguments {
  FewTokenInput input;
  void* c = nullptr;  // [num_tokens, num_outputs] of `c_type`
  std::size_t c_stride = 0;
  DataType c_type = DataType::kBF16;  // kF32 or input.type
};

// Throws CudaError; std::invalid_argument for what does not fit the above. Any
// thread.
void launch_few_token_gemm(const FewTokenGemmArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
