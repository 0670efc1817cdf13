// SPDX-License-Identifier: Apache-2.0
// The first half of a gated feed-forward layer for few tokens
// (few_token_input.hpp): h = silu(gate) * up, of gate and up = a · weightᵀ + bias.
#pragma once

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct GatedGemmArguments {
  FewTokenInput input;  // num_outputs is twice h's width: gate's rows first
  void* h = nullptr;    // [num_tokens, num_outputs / 2] of input.type
  std::size_t h_stride = 0;
};

// Throws CudaError; std::invalid_argument for what does not fit the above. Any
// thread.
void launch_gated_gemm(const GatedGemmArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
