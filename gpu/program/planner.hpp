// SPDX-License-Identifier: Apache-2.0
// Places the temporaries of a program in memory: two tensors share bytes only
// if no operator needs both. Algorithm 1 of TurboTransformers (Fang et al.,
// PPoPP 2021), the sequence-length-aware allocator: memory is a list of chunks
// that outlives one plan, so a new length reuses what is there. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/program/program.hpp"

namespace troupe {

inline constexpr std::uint64_t kArenaAlignment = 64;             // bytes, of every tensor
inline constexpr std::uint64_t kDefaultChunkBytes = 2ULL << 20;  // the paper's 2 MB
inline constexpr double kChunkSlack = 1.2;                       // the paper's K_SCALE

// From the first to the last operator, both inclusive, the bytes are needed.
struct TensorUse {
  std::uint32_t first_operator = 0;
  std::uint32_t last_operator = 0;
  std::uint64_t size_bytes = 0;
  auto operator<=>(const TensorUse&) const = default;
};

struct Placement {
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;  // bytes from the chunk's start
};

struct PlannedChunk {
  std::uint64_t size_bytes = 0;
  std::optional<std::uint32_t> existing;  // index in the list given; none: new
};

struct ArenaPlan {
  std::vector<Placement> placements;  // one a use, in the order given
  std::vector<PlannedChunk> chunks;   // in use; existing ones not named are to be released
  std::uint64_t size_bytes() const;
};

// Places the uses in existing chunks (their sizes in bytes) and in new ones.
ArenaPlan plan_arena(std::span<const TensorUse> uses, std::span<const std::uint64_t> existing_chunks = {});

// Operands that one operator reads and writes.
struct OperandList {
  std::span<const TensorId> inputs;
  std::span<const TensorId> outputs;
};

// When each tensor is used, by TensorId, at a shape that may be larger than the
// program's own. Weights and unused tensors have size 0.
std::vector<TensorUse> tensor_uses(std::span<const TensorSpec> tensors,
                                   std::span<const OperandList> operators, ProgramShape shape);
std::vector<TensorUse> tensor_uses(const Program& program, ProgramShape shape);

std::uint64_t rows_of(const TensorSpec& tensor, ProgramShape shape);

}  // namespace troupe
