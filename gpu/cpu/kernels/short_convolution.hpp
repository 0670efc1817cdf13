// SPDX-License-Identifier: Apache-2.0
// ShortConvolution (gpu/operators/short_convolution.hpp) on CPU cores, in two steps: all tokens of a batch
// are appended to the pages before the first is convolved.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cpu/kernels/attention/paged_attention.hpp"
#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {

struct ShortConvolutionArguments {
  std::span<const TokenPlace> places;      // one a token
  std::span<const AttentionBlock> blocks;  // all tokens, in parts of sequences
  const PageId* page_table = nullptr;      // Batch::page_table
  void* kv_pool = nullptr;
  KvLayout layout;
  std::size_t layer = 0;
  std::size_t num_layers = 0;
  const float* bcx = nullptr;  // [tokens, 3 width]
  std::size_t bcx_stride = 0;
  const float* weight = nullptr;  // [width, num_taps]
  std::size_t num_taps = 0;
  std::size_t width = 0;  // at most num_layers * 2 kv_heads * head_dim
  void* y = nullptr;      // [tokens, width]
  DataType y_type = DataType::kF32;
  std::size_t y_stride = 0;
  Isa isa = best_isa();
};

// A task is a few tokens. No two tokens of a batch share a place.
std::size_t append_convolved_num_tasks(const ShortConvolutionArguments& arguments);
void append_convolved_run_task(const ShortConvolutionArguments& arguments, std::size_t task);

// A task is a block.
std::size_t short_convolution_num_tasks(const ShortConvolutionArguments& arguments);
void short_convolution_run_task(const ShortConvolutionArguments& arguments, std::size_t task);

}  // namespace troupe
