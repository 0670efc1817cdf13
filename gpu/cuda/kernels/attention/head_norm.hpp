// SPDX-License-Identifier: Apache-2.0
// RMS norm of each query head and each key head of a token, in place; the queries'
// heads share one weight, the keys' heads another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; the stride is in elements.
struct HeadNormArguments {
  void* qkv = nullptr;  // [num_tokens, (num_heads + 2 num_kv_heads) * head_dim] of `type`
  std::size_t qkv_stride = 0;
  const float* query_weight = nullptr;  // [head_dim]
  const float* key_weight = nullptr;    // [head_dim]
  DataType type = DataType::kF32;       // kF32, kF16 or kBF16
  std::uint32_t num_tokens = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  float epsilon = 1e-6F;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_head_norm(const HeadNormArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
