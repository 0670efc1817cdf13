// SPDX-License-Identifier: Apache-2.0
// EmbedSinusoids (gpu/operators/embed_sinusoids.hpp) on CPU cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/embed_positions.hpp"
#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct EmbedSinusoidsArguments {
  EmbeddingTable words;
  std::span<const std::int32_t> token_ids;         // an id outside words gives a row of zeros
  std::span<const std::uint32_t> token_positions;  // as many
  float scale = 1.0F;
  std::uint32_t first_position = 0;
  bool ends_at_slowest = false;
  float* x = nullptr;     // [tokens, width]
  std::size_t width = 0;  // even
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t embed_sinusoids_num_tasks(const EmbedSinusoidsArguments& arguments);
void embed_sinusoids_run_task(const EmbedSinusoidsArguments& arguments, std::size_t task);

}  // namespace troupe
