// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/planner.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe {
namespace {

struct PlacedUse {
  std::uint64_t offset = 0;
  TensorUse use;
};

struct Chunk {
  std::uint64_t size_bytes = 0;
  std::vector<PlacedUse> placed;  // by ascending offset, as the gap search needs
};

bool overlap_in_time(const TensorUse& a, const TensorUse& b) {
  return std::max(a.first_operator, b.first_operator) <= std::min(a.last_operator, b.last_operator);
}

std::uint64_t aligned(std::uint64_t size_bytes) {
  return (size_bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// The paper's FindGapFromChunk: the smallest gap between neighbours that live
// at the same time, else the room behind the last of them.
std::optional<std::uint64_t> find_gap(const Chunk& chunk, const TensorUse& use) {
  std::uint64_t smallest_gap = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t previous_end = 0;
  std::optional<std::uint64_t> best;
  for (const auto& [offset, other] : chunk.placed) {
    if (!overlap_in_time(use, other)) continue;
    if (offset >= previous_end) {
      const std::uint64_t gap = offset - previous_end;
      if (gap >= use.size_bytes && gap < smallest_gap) {
        smallest_gap = gap;
        best = previous_end;
      }
    }
    previous_end = std::max(previous_end, offset + other.size_bytes);
  }
  if (!best && previous_end <= chunk.size_bytes && chunk.size_bytes - previous_end >= use.size_bytes) {
    best = previous_end;
  }
  return best;
}

void place(Chunk& chunk, std::uint64_t offset, const TensorUse& use) {
  const auto position =
      std::upper_bound(chunk.placed.begin(), chunk.placed.end(), offset,
                       [](std::uint64_t value, const auto& other) { return value < other.offset; });
  chunk.placed.insert(position, {offset, use});
}

// MemAllocate's loop body: an existing chunk with a gap, or a new chunk.
Placement allocate(std::vector<Chunk>& chunks, const TensorUse& use) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (const auto offset = find_gap(chunks[i], use)) {
      place(chunks[i], *offset, use);
      return {static_cast<std::uint32_t>(i), *offset};
    }
  }
  const auto with_slack =
      aligned(static_cast<std::uint64_t>(static_cast<double>(use.size_bytes) * kChunkSlack));
  chunks.push_back({std::max({kDefaultChunkBytes, with_slack, use.size_bytes}), {}});
  place(chunks.back(), 0, use);
  return {static_cast<std::uint32_t>(chunks.size() - 1), 0};
}

}  // namespace

std::uint64_t ArenaPlan::size_bytes() const {
  return std::accumulate(chunks.begin(), chunks.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& c) { return sum + c.size_bytes; });
}

ArenaPlan plan_arena(std::span<const TensorUse> uses, std::span<const std::uint64_t> existing_chunks) {
  std::vector<Chunk> chunks;
  for (const std::uint64_t size_bytes : existing_chunks) chunks.push_back({size_bytes, {}});

  std::vector<std::uint32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return uses[a].size_bytes > uses[b].size_bytes; });
  ArenaPlan plan;
  plan.placements.resize(uses.size());
  for (const std::uint32_t index : order) {
    TensorUse use = uses[index];
    use.size_bytes = aligned(use.size_bytes);
    if (use.size_bytes > 0) plan.placements[index] = allocate(chunks, use);
  }

  // Unused chunks leave the list, so the remaining ones move up.
  std::vector<std::uint32_t> new_index(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    new_index[i] = static_cast<std::uint32_t>(plan.chunks.size());
    if (chunks[i].placed.empty()) continue;
    plan.chunks.push_back({chunks[i].size_bytes, std::nullopt});
    if (i < existing_chunks.size()) plan.chunks.back().existing = static_cast<std::uint32_t>(i);
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].size_bytes > 0) {
      plan.placements[i].chunk = new_index[plan.placements[i].chunk];
    }
  }
  return plan;
}

std::uint64_t rows_of(const TensorSpec& tensor, ProgramShape shape) {
  switch (tensor.rows) {
    case RowCount::kFixed: return tensor.fixed_rows;
    case RowCount::kTokens: return std::uint64_t{shape.max_tokens} * tensor.rows_a_token;
    case RowCount::kOutputRows: return shape.max_output_rows;
    case RowCount::kSlices: return shape.max_tokens;
  }
  return 0;
}

std::vector<TensorUse> tensor_uses(std::span<const TensorSpec> tensors,
                                   std::span<const OperandList> operators, ProgramShape shape) {
  std::vector<TensorUse> uses(tensors.size());
  const auto touch = [&](TensorId id, std::uint32_t index) {
    const TensorSpec& tensor = tensors[id];
    if (tensor.role != TensorRole::kTemporary) return;
    TensorUse& use = uses[id];
    if (use.size_bytes == 0) {
      use.first_operator = index;
      use.size_bytes = rows_of(tensor, shape) * tensor.columns * size_of(tensor.type);
    }
    use.last_operator = index;
  };
  for (std::uint32_t i = 0; i < operators.size(); ++i) {
    for (const TensorId id : operators[i].inputs) touch(id, i);
    for (const TensorId id : operators[i].outputs) touch(id, i);
  }
  return uses;
}

std::vector<TensorUse> tensor_uses(const Program& program, ProgramShape shape) {
  std::vector<OperandList> operators;
  operators.reserve(program.operators.size());
  for (const Operator& op : program.operators) operators.push_back({op.inputs, op.outputs});
  return tensor_uses(program.tensors, operators, shape);
}

}  // namespace troupe
