// SPDX-License-Identifier: Apache-2.0
// ShortConvolution (gpu/operators/short_convolution.hpp) on a GPU, as two kernels: all tokens of a batch are
// appended to the pages before the first is convolved. Numbers are of the pages' type; sums are f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct ShortConvolutionArguments {
  const void* bcx = nullptr;  // [num_tokens, 3 width] of layout.type
  std::size_t bcx_stride = 0;
  const float* weight = nullptr;       // [width, num_taps]
  std::uint32_t num_taps = 0;          // at most kKvPageTokens + 1
  std::uint32_t width = 0;             // at most num_layers * 2 kv_heads * head_dim
  const TokenPlace* places = nullptr;  // [num_tokens], no two the same
  const PageId* previous_pages =
      nullptr;  // [num_tokens]: the sequence's page before the place's, if there is one
  std::uint32_t num_tokens = 0;
  std::byte* pool = nullptr;  // of `layout`
  KvLayout layout;
  std::uint32_t layer = 0;  // the first of num_layers page layers
  std::uint32_t num_layers = 0;
  void* y = nullptr;  // [num_tokens, width] of layout.type
  std::size_t y_stride = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread.
void launch_short_convolution(const ShortConvolutionArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
