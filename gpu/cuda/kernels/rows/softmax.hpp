// SPDX-License-Identifier: Apache-2.0
// Softmax over the rows of a matrix in place: scores of padded attention, with a
// valid length for each group of rows. Maximum and sum come from one pass
// (Milakov and Gimelshein, 2018, "Online normalizer calculation for softmax"),
// several rows a block (TurboTransformers' batch reduction).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Device pointers; strides in elements.
struct SoftmaxArguments {
  void* scores = nullptr;  // [num_rows, width] of `type`
  std::size_t stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  float scale = 1.0F;  // scores are multiplied by it first
  // [num_rows / rows_of_length] lengths <= width, or none: columns behind a row's
  // length become 0.
  const std::uint32_t* lengths = nullptr;
  std::uint32_t rows_of_length = 1;
};

// Throws CudaError. Any thread. A row whose length is 0, or that is -Inf all
// over, becomes 0.
void launch_softmax(const SoftmaxArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
