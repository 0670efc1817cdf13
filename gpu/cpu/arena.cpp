// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/arena.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

// The placements in terms of the existing chunks, or nothing if new ones are needed.
std::optional<std::vector<Placement>> in_existing(ArenaPlan plan, const std::vector<TensorUse>& uses) {
  for (const auto& chunk : plan.chunks) {
    if (!chunk.existing) return std::nullopt;
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    auto& chunk = plan.placements[i].chunk;
    chunk = uses[i].size_bytes > 0 ? *plan.chunks[chunk].existing : 0;
  }
  return std::move(plan.placements);
}

// Each program uses the chunks of those before it, and new ones where these do not do.
std::vector<std::uint64_t> chunk_sizes_of(std::span<const Program> largest) {
  std::vector<std::uint64_t> sizes;
  for (const Program& program : largest) {
    const ArenaPlan plan = plan_arena(tensor_uses(program, program.shape), sizes);
    for (const PlannedChunk& chunk : plan.chunks)
      if (!chunk.existing) sizes.push_back(chunk.size_bytes);
  }
  return sizes;
}

}  // namespace

std::uint64_t arena_bytes(std::span<const Program> largest) {
  std::uint64_t sum = 0;
  for (const std::uint64_t size : chunk_sizes_of(largest)) sum += size;
  return sum;
}

Arena::Arena(std::span<const Program> largest) : largest_(largest.front().shape) {
  chunk_sizes_ = chunk_sizes_of(largest);
  for (const std::uint64_t size : chunk_sizes_) chunks_.push_back({.memory = PageMemory(size)});
}

std::vector<Placement> Arena::place(const Program& program) const {
  if (program.shape.max_tokens > largest_.max_tokens ||
      program.shape.max_output_rows > largest_.max_output_rows) {
    throw std::runtime_error("the program is larger than the device was planned for");
  }
  const auto uses = tensor_uses(program, program.shape);
  if (auto placements = in_existing(plan_arena(uses, chunk_sizes_), uses)) return *placements;
  // A greedy plan of a smaller shape may in rare cases want more than the plan
  // of the largest; the largest one's places hold every smaller tensor.
  const auto largest_uses = tensor_uses(program, largest_);
  auto placements = in_existing(plan_arena(largest_uses, chunk_sizes_), largest_uses);
  if (!placements) throw std::runtime_error("the program needs more temporaries than planned for");
  return *placements;
}

std::vector<std::uint64_t> Arena::used_bytes(const Program& program,
                                             std::span<const Placement> placements) const {
  const auto uses = tensor_uses(program, program.shape);
  std::vector<std::uint64_t> used(chunks_.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].size_bytes == 0) continue;
    std::uint64_t& end = used[placements[i].chunk];
    end = std::max(end, placements[i].offset + uses[i].size_bytes);
  }
  return used;
}

void Arena::begin_batch(std::span<const std::uint64_t> used_bytes) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    const std::uint64_t used = std::min(whole_huge_pages(used_bytes[i]), chunk.memory.size_bytes());
    chunk.used_lately = std::max(chunk.used_lately, used);
    chunk.committed_bytes = std::max(chunk.committed_bytes, used);
  }
  if (++num_batches_ == kIdleBatches) release_unused();
}

void Arena::release_unused() {
  num_batches_ = 0;
  for (Chunk& chunk : chunks_) {
    if (chunk.used_lately < chunk.committed_bytes) chunk.memory.release_physical(chunk.used_lately);
    chunk.committed_bytes = std::exchange(chunk.used_lately, 0);
  }
}

void Arena::poison() {
  for (auto& chunk : chunks_) std::memset(chunk.memory.get(), 0xFF, chunk.memory.size_bytes());
}

std::uint64_t Arena::size_bytes() const {
  std::uint64_t sum = 0;
  for (const auto size : chunk_sizes_) sum += size;
  return sum;
}

std::uint64_t Arena::committed_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& chunk : chunks_) sum += chunk.committed_bytes;
  return sum;
}

}  // namespace troupe
