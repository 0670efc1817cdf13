// SPDX-License-Identifier: Apache-2.0
// Rows of the embedding table by token id, in f32: what enters the first layer.
// A decode step may take its token from its sequence's slot on the device, so
// that it can be queued before the host knows the token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

inline constexpr std::uint32_t kNoSlot = 0xFFFFFFFF;

// Device pointers; strides in elements.
struct EmbedArguments {
  const void* table = nullptr;  // [vocabulary, width] of `type`
  std::size_t table_stride = 0;
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16
  std::uint32_t vocabulary = 0;
  const std::int32_t* token_ids = nullptr;        // [num_rows]
  const std::uint32_t* slots = nullptr;           // [num_rows]: kNoSlot, or whose token counts; or none
  const std::int32_t* tokens_of_slots = nullptr;  // with `slots`
  float* x = nullptr;                             // [num_rows, width]
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;  // tokens
  std::uint32_t width = 0;
  std::uint64_t* began = nullptr;  // gets the device's time, or none
};

// Throws CudaError. Any thread. An id outside the vocabulary gives a row of
// zeros, as on the host.
void launch_embed(const EmbedArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
