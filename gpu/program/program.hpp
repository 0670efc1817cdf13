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
#include "gpu/operators/activation.hpp"
#include "gpu/operators/pooling_mode.hpp"
#include "gpu/program/cell.hpp"

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
  kSlices,      // one a slice, of which a batch has at most as many as tokens
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

// x = scale * the row of each token. inputs {embedding [vocabulary, hidden]}, outputs {x
// [tokens, hidden]}
struct Embed {
  float scale = 1.0F;
};

// inputs {x, weight [1, hidden]} or {x, weight, residual}; outputs {normed} or
// {normed, x}: with a residual, x += residual is written back first.
struct RmsNorm {
  float epsilon = 1e-5F;
};

// inputs {a [rows, K], weight [N, K]}, or with a third input, the bias [1, N];
// outputs {c [rows, N]}: c = a · weightᵀ (+ bias).
struct Matmul {};

// RMS norm of each query and each key head, in place. inputs {qkv [tokens, (heads + 2
// kv_heads) * head_dim], query weight [1, head_dim], key weight [1, head_dim]}.
struct HeadNorm {
  float epsilon = 1e-6F;
};

// Rotates query and key heads in place, unless the layer has no positions, and appends
// keys and values to the KV pages of `layer`. inputs {qkv [tokens, (heads + 2 kv_heads) * head_dim]}.
struct RotaryAppendKv {
  std::uint32_t layer = 0;
  bool rotates = true;
  bool is_local = false;  // by ModelShapes::local_rotary
};

// Causal attention of every query token over the pages of its own sequence,
// prefill and decode alike (Pensieve §3.4, multi-token paged attention).
// inputs {qkv}, outputs {attended [tokens, heads * head_dim]}.
struct PagedAttention {
  std::uint32_t layer = 0;
  std::uint32_t window = 0;  // a token sees so many, itself and those before it; 0: all
  float scale = 0.0F;        // of scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0.0F;     // scaled scores s become soft_cap * tanh(s / soft_cap); 0: they stay
};

// activation(gate) * up. inputs {gate_up [tokens, 2 * width]: gate first}, outputs
// {h [tokens, width]}.
struct GatedActivation {
  Activation activation = Activation::kSilu;  // or kGeluTanh
};

// Keeps the rows that are sampled. inputs {x} or {x, residual}; outputs
// {rows [output rows, hidden]} = x (+ residual).
struct GatherRows {};

// x = cap * tanh(x / cap), in place. inputs {x [rows, width]}, f32.
struct SoftCap {
  float cap = 1.0F;
};

// Draws one token a row from logits [output rows, vocabulary], writes it to
// the batch's result and to the sequence's slot.
struct Sample {};

// x = word + type + position; an encoder's token has the position of its index in its slice, and
// the type 0, or 1 from the slice's second_text on (0 where there is one type only). inputs {words
// [vocabulary, width], positions [positions, width]} and perhaps {types [types, width]},
// outputs {x [tokens, width]}
struct EmbedPositions {
  std::uint32_t first_position = 0;  // the row of position 0
};

// (x - mean) / sqrt(variance + epsilon) * weight + bias. inputs {x, weight [1,
// hidden], bias [1, hidden]} or {x, weight, bias, residual}: x + residual is what
// is normed. outputs {normed}, f32, which may be x or residual, or {normed, a}: a
// is normed once more, in a's type.
struct LayerNorm {
  float epsilon = 1e-12F;
};

// h = activation(x), in h's type. inputs {x}, outputs {h}, which may be x.
struct Activate {
  Activation activation = Activation::kGelu;
};

// x += y. inputs {x, y}, f32 of the same shape, outputs {x}
struct Add {};

// Operators of encoders, whose slices are whole sequences:

// Attention of every token to all tokens of its slice. inputs {qkv [tokens, 3 heads *
// head_dim]}, outputs {attended [tokens, heads * head_dim]}.
struct SelfAttention {};

// One vector a slice. inputs {x [tokens, hidden]}, outputs {pooled [slices, hidden]}, or
// none: to the batch's result.
struct Pool {
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;  // to length 1
};

// Each slice's row to the batch's result. inputs {rows [slices, width]}
struct WriteVectors {};

using OperatorKind = std::variant<Embed, RmsNorm, Matmul, HeadNorm, RotaryAppendKv, PagedAttention,
                                  GatedActivation, GatherRows, SoftCap, Sample, Add, EmbedPositions,
                                  LayerNorm, Activate, SelfAttention, Pool, WriteVectors>;

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
  CellId cell = 0;  // of the network that built it
  ProgramShape shape;
  std::vector<TensorSpec> tensors;
  std::vector<Operator> operators;
};

}  // namespace troupe
