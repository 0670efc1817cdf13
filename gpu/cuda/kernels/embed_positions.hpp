// SPDX-License-Identifier: Apache-2.0
// EmbedPositions (gpu/operators/embed_positions.hpp) on a GPU.
#pragma once

#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/token_places.hpp"

namespace troupe::cuda {

// Device pointers; rows lie one behind the other.
struct EmbedPositionsArguments {
  const void* words = nullptr;      // [vocabulary, width] of `type`
  const void* positions = nullptr;  // the same, with a row for each place
  const void* types = nullptr;      // [num_types, width] of `type`, or none
  DataType type = DataType::kF32;   // kF32, kF16 or kBF16
  std::uint32_t vocabulary = 0;
  std::uint32_t num_types = 0;
  const std::int32_t* token_ids = nullptr;        // [num_rows]
  const std::uint32_t* slots = nullptr;           // as EmbedArguments
  const std::int32_t* tokens_of_slots = nullptr;  // with `slots`
  const TokenPlace* places = nullptr;             // [num_rows], of which positions count
  const std::uint8_t* token_types = nullptr;      // [num_rows], or none: 0
  std::uint32_t first_position = 0;               // the row of position 0
  float* x = nullptr;                             // [num_rows, width]
  std::uint32_t num_rows = 0;                     // tokens
  std::uint32_t width = 0;
  std::uint64_t* began = nullptr;  // gets the device's time, or none
};

// Throws CudaError. Any thread.
void launch_embed_positions(const EmbedPositionsArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
