// SPDX-License-Identifier: Apache-2.0
// A program is what a device runs for one batch of one cell type: few fused
// operators, in order, over tensors whose place in memory was planned before.
// Networks build programs (gpu/networks/), the planner places their
// temporaries, devices execute them. A program knows shapes, never pointers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/operators/activate.hpp"
#include "gpu/operators/add.hpp"
#include "gpu/operators/cells/additive_attention.hpp"
#include "gpu/operators/cells/attend_states.hpp"
#include "gpu/operators/cells/gather_state.hpp"
#include "gpu/operators/cells/gru_cell.hpp"
#include "gpu/operators/cells/keep_state.hpp"
#include "gpu/operators/cells/lstm_cell.hpp"
#include "gpu/operators/cells/tree_lstm.hpp"
#include "gpu/operators/embed.hpp"
#include "gpu/operators/embed_positions.hpp"
#include "gpu/operators/embed_sinusoids.hpp"
#include "gpu/operators/experts/combine_experts.hpp"
#include "gpu/operators/experts/expert_matmul.hpp"
#include "gpu/operators/experts/group_rows.hpp"
#include "gpu/operators/experts/route_experts.hpp"
#include "gpu/operators/gated_activation.hpp"
#include "gpu/operators/gather_rows.hpp"
#include "gpu/operators/head_norm.hpp"
#include "gpu/operators/layer_norm.hpp"
#include "gpu/operators/matmul.hpp"
#include "gpu/operators/paged_attention.hpp"
#include "gpu/operators/pool.hpp"
#include "gpu/operators/rms_norm.hpp"
#include "gpu/operators/rotary_append_kv.hpp"
#include "gpu/operators/sample.hpp"
#include "gpu/operators/self_attention.hpp"
#include "gpu/operators/short_convolution.hpp"
#include "gpu/operators/soft_cap.hpp"
#include "gpu/operators/write_vectors.hpp"
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
  std::uint32_t rows_a_token = 1;  // kTokens: so many rows for each of them
};

// Each has its contract in gpu/operators/: shapes, numerics, what may be what.
using OperatorKind =
    std::variant<Embed, RmsNorm, Matmul, HeadNorm, RotaryAppendKv, PagedAttention, GatedActivation,
                 RouteExperts, GroupRows, ExpertMatmul, CombineExperts, GatherRows, SoftCap, Sample, Add,
                 EmbedPositions, EmbedSinusoids, LayerNorm, Activate, SelfAttention, Pool, WriteVectors,
                 GatherState, KeepState, LstmCell, GruCell, TreeLstmLeaf, TreeLstmBinary, TreeLstmChildSum,
                 AttendStates, AdditiveAttention, ShortConvolution>;

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

// A tensor of f32 rows, one a token, that says what the network makes of the tokens so far. Its
// rows are read when so many operators are done; an operator behind them reads it too, so its
// memory is no other's then.
struct HandedState {
  TensorId tensor = 0;
  std::uint32_t num_operators = 0;
};

struct Program {
  CellId cell = 0;  // of the network that built it
  ProgramShape shape;
  std::vector<TensorSpec> tensors;
  std::vector<Operator> operators;
  // None: it hands no state out. Handing one out is reading only: no operator is there for it.
  std::optional<HandedState> state = {};
};

}  // namespace troupe
