// SPDX-License-Identifier: Apache-2.0
// The start of attention for few tokens (few_token_input.hpp): queries, keys and
// values = a · weightᵀ + bias; queries and keys are rotated (rotary_append_kv.hpp), keys and
// values go to the KV pages and nowhere else.
#pragma once

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct QkvGemmArguments {
  FewTokenInput input;      // num_outputs: (num_heads + 2 num_kv_heads) * head_dim
  void* queries = nullptr;  // [num_tokens, num_heads * head_dim] of input.type
  std::size_t query_stride = 0;
  const TokenPlace* places = nullptr;  // [num_tokens], no two the same
  std::uint32_t num_heads = 0;
  // [positions, head_dim]: cosines, then sines (RotaryTable::row); or none, then
  // nothing is rotated.
  const float* cosines_sines = nullptr;
  std::byte* pool = nullptr;  // of `layout`
  KvLayout layout;            // of input.type
  std::uint32_t layer = 0;
};

// Throws CudaError; std::invalid_argument for what does not fit the above. Any
// thread.
void launch_qkv_gemm(const QkvGemmArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
