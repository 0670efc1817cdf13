// SPDX-License-Identifier: Apache-2.0
// A program is what a device runs for one batch of one cell type: few fused
// operators, in order, over tensors whose place in memory was planned before.
// Networks build programs (gpu/networks/), the planner places their
// temporaries, devices execute them. A program knows shapes, never pointers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gpu/data_type.hpp"

namespace troupe {

using TensorId = std::uint32_t;

enum class TensorRole : std::uint8_t {
  kTemporary,  // lives in the arena between its first and last operator
  kWeight,     // loaded once, read only, found by name
};

// How many rows a tensor has: most follow the batch.
enum class RowCount : std::uint8_t {
  kFixed,       // TensorSpec::fixed_rows
  kTokens,      // all query tokens of the batch
  kOutputRows,  // the rows that are sampled
};

// A row-major matrix, [rows, columns].
struct TensorSpec {
  std::string name;  // weights: their name in the WeightLayout of the network
  DataType type = DataType::kF32;
  TensorRole role = TensorRole::kTemporary;
  RowCount rows = RowCount::kTokens;
  std::uint32_t fixed_rows = 0;
  std::uint32_t columns = 0;
};

// inputs {embedding [vocabulary, hidden]}, outputs {x [tokens, hidden]}
struct Embed {};

// inputs {x, weight [1, hidden]} or {x, weight, residual}; outputs {normed} or
// {normed, x}: with a residual, x += residual is written back first.
struct RmsNorm {
  float epsilon = 1e-5F;
};

// inputs {a [rows, K], weight [N, K]}, or with a third input, the bias [1, N];
// outputs {c [rows, N]}: c = a · weightᵀ (+ bias).
struct Matmul {};

// Rotates query and key heads in place and appends keys and values to the KV
// pages of `layer`. inputs {qkv [tokens, (heads + 2 kv_heads) * head_dim]}.
struct RotaryAppendKv {
  std::uint32_t layer = 0;
};

// Causal attention of every query token over the pages of its own sequence,
// prefill and decode alike (Pensieve §3.4, multi-token paged attention).
// inputs {qkv}, outputs {attended [tokens, heads * head_dim]}.
struct PagedAttention {
  std::uint32_t layer = 0;
};

// silu(gate) * up. inputs {gate_up [tokens, 2 * width]: gate first}, outputs
// {h [tokens, width]}.
struct GatedActivation {};

// Keeps the rows that are sampled. inputs {x} or {x, residual}; outputs
// {rows [output rows, hidden]} = x (+ residual).
struct GatherRows {};

// Draws one token a row from logits [output rows, vocabulary], writes it to
// the batch's result and to the sequence's slot.
struct Sample {};

using OperatorKind =
    std::variant<Embed, RmsNorm, Matmul, RotaryAppendKv, PagedAttention, GatedActivation, GatherRows, Sample>;

struct Operator {
  OperatorKind kind;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
};

// The upper bounds a program was planned for; a batch may be smaller.
struct ProgramShape {
  std::uint32_t max_tokens = 0;
  std::uint32_t max_output_rows = 0;
  auto operator<=>(const ProgramShape&) const = default;
};

struct Program {
  std::string cell;  // which cell type this is, for instance "decoder_step"
  ProgramShape shape;
  std::vector<TensorSpec> tensors;
  std::vector<Operator> operators;
};

}  // namespace troupe
