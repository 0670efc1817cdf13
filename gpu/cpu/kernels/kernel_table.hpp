// SPDX-License-Identifier: Apache-2.0
// Kernels that every instruction set implements (vector/kernels_<isa>.cpp), behind
// function pointers. Internal: callers use matmul.hpp, paged_attention.hpp, ...
// Only plain pointers and sizes, so that the files compiled for one instruction
// set share no inline function with the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/block_format.hpp"
#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/cpu/kernels/matmul/quantized_block.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {

// Some panels of a packed weight times some rows of a (see packed_matrix.hpp).
struct MatmulBlock {
  const std::byte* panels = nullptr;  // the first one
  std::size_t num_panels = 0;
  std::size_t num_inputs = 0;              // K
  std::size_t num_columns = 0;             // of c from the first panel's on, <= 32 num_panels
  BlockFormat format = BlockFormat::kF32;  // of the weight
  const void* a = nullptr;
  DataType a_type = DataType::kF32;
  std::size_t a_stride = 0;     // elements
  Q8Rows q8_rows = {};          // a in 8 bits, for a quantized weight; numbers null: a as it is
  const float* bias = nullptr;  // of the first panel
  float* c = nullptr;           // column of the first panel
  std::size_t c_stride = 0;
  std::size_t num_rows = 0;
};

struct RowToRound {
  const void* a = nullptr;
  DataType a_type = DataType::kF32;
  std::size_t num_inputs = 0;
  Q8Rows row;  // the first of its rows is written
};

// Softmax and weighted sum of a row start anew at every multiple of so many keys; the results of these splits
// are merged in order, whether one thread computed them or several.
inline constexpr std::size_t kSplitTokens = 512;
inline constexpr std::size_t kAllSplits = ~std::size_t{0};

// Floats of a row's result of one split: sums of weighted values, the highest score, the sum of weights.
[[gnu::always_inline]] constexpr std::size_t partial_floats(std::size_t head_dim) {
  return padded_head_dim(head_dim) + 16;
}

// Some query tokens of one sequence, the heads of one KV head.
struct AttentionWork {
  const float* queries = nullptr;  // first token, first head of the group
  std::size_t query_stride = 0;
  std::size_t num_tokens = 0;
  std::size_t num_group_heads = 0;
  std::size_t first_position = 0;
  std::size_t window = 0;                // a token sees so many, itself the last one; 0: all before it
  std::size_t num_hidden = 0;            // the first so many are seen by none
  std::size_t num_visible = 0;           // every token sees so many; 0: those up to itself
  const std::uint32_t* pages = nullptr;  // of the sequence, from token 0 on; null: 0, 1, 2, …
  const std::byte* page_zero = nullptr;  // block of page 0 of this layer and head
  std::size_t page_stride = 0;           // bytes between two pages' blocks
  KvLayout layout;
  float scale = 0.0F;
  float soft_cap = 0.0F;         // 0: none
  const float* sinks = nullptr;  // of the group's heads, or none
  void* attended = nullptr;
  DataType attended_type = DataType::kF32;
  std::size_t attended_stride = 0;
  std::size_t split = kAllSplits;  // the only one that attend() computes: its results go to partials
  float* partials = nullptr;       // [num_tokens * num_group_heads, partial_floats()] of split 0
  std::size_t split_stride = 0;    // floats to the same of the next split
};

struct RotaryWork {
  float* qkv = nullptr;  // one token's row
  std::size_t num_heads = 0;
  const float* cosines_sines = nullptr;  // [rotary_dim / 2] each
  std::size_t rotary_dim = 0;            // the first elements of a head; the others stay as they are
  std::byte* page = nullptr;             // first KV head's block of the token's page
  std::size_t slot = 0;                  // token's place in the page
  KvLayout layout;
};

struct RmsNormRow {
  float* x = nullptr;
  const float* residual = nullptr;
  const float* weight = nullptr;
  void* normed = nullptr;
  DataType normed_type = DataType::kF32;
  std::size_t width = 0;
  float epsilon = 0.0F;
};

struct LayerNormRow {
  const float* x = nullptr;
  const float* residual = nullptr;  // or none
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* normed = nullptr;           // may be x or residual
  std::uint16_t* rounded = nullptr;  // normed as bf16, or none
  std::size_t width = 0;
  float epsilon = 0.0F;
};

// Keys and values of one head, in the order of kv_layout.hpp: one page after the other.
struct HeadToPack {
  const float* keys = nullptr;  // first token
  const float* values = nullptr;
  std::size_t stride = 0;  // elements from token to token
  std::size_t num_tokens = 0;
  KvLayout layout;  // kF32, one KV head
  std::byte* pages = nullptr;
};

// The mean of some rows, or their largest values.
struct RowsToPool {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  std::size_t num_rows = 0;  // >= 1
  std::size_t width = 0;
  bool takes_largest = false;
  bool normalizes = false;
  float* vector = nullptr;
};

// One node of an LSTM or a GRU, [width] but for its gates.
struct RecurrentNode {
  const float* input_gates = nullptr;  // [4 width] or [3 width]
  const float* state_gates = nullptr;
  const float* state = nullptr;  // c of an LSTM, h of a GRU
  float* new_state = nullptr;    // may be state; a GRU has none but kept_h
  float* kept_h = nullptr;       // may be a GRU's state
  float* h = nullptr;
  std::size_t width = 0;
};

// One node of a Tree-LSTM, [width] but for its gates.
struct TreeNode {
  const float* gates = nullptr;
  const float* input_gates = nullptr;     // child sum: [4 width]
  const float* const* states = nullptr;   // c of each input
  const float* const* forgets = nullptr;  // child sum: of each input
  std::size_t num_inputs = 0;             // child sum
  float* new_state = nullptr;             // may be one of states
  float* kept_h = nullptr;
  float* h = nullptr;
  std::size_t width = 0;
};

struct LogitSummary {
  float highest = 0.0F;
  bool is_valid = false;  // no NaN, no +Inf
};

struct KernelTable {
  void (*to_f32)(DataType type, const void* source, float* target, std::size_t count);
  void (*to_bf16)(DataType type, const void* source, std::uint16_t* target, std::size_t count);
  void (*multiply)(const MatmulBlock& block);
  // kQ8_0 or kQ4_0 of 32 values, the same on every instruction set; false: a value is
  // too large for an f16 scale.
  bool (*quantize)(BlockFormat format, const float* values, QuantizedBlock& block);
  void (*round_row)(const RowToRound& row);  // the same on every instruction set
  void (*attend)(const AttentionWork& work);
  void (*merge_splits)(const AttentionWork& work);  // partials, of all splits, to attended
  void (*rotate_and_append)(const RotaryWork& work);
  void (*normalize)(const RmsNormRow& row);
  // kSilu, kGeluTanh or kClampedSwish, with which up is clamped, too, and one more
  void (*activate)(Activation activation, const float* gate, const float* up, void* h, DataType h_type,
                   std::size_t width);
  void (*add)(const float* x, const float* y, float* sum, std::size_t width);
  void (*normalize_layer)(const LayerNormRow& row);
  void (*activate_row)(Activation activation, const float* x, void* h, DataType h_type, std::size_t width);
  // x = cap * tanh(x / cap)
  void (*soft_cap)(float cap, float* x, std::size_t width);
  // sum += row
  void (*add_row)(DataType type, const void* row, float* sum, std::size_t width);
  void (*pack_head)(const HeadToPack& head);
  void (*pool)(const RowsToPool& rows);
  void (*lstm_node)(const RecurrentNode& node);
  void (*gru_node)(const RecurrentNode& node);
  void (*tree_leaf)(const TreeNode& node);
  void (*tree_binary)(const TreeNode& node);
  void (*tree_child_sum)(const TreeNode& node);
  float (*dot)(const float* x, const float* y, std::size_t width);
  // The sum of weight[i] tanh(query[i] + key[i]).
  float (*additive_score)(const float* query, const float* key, const float* weight, std::size_t width);
  // sum += factor * x
  void (*add_scaled)(float factor, const float* x, float* sum, std::size_t width);
  LogitSummary (*summarize)(const float* logits, std::size_t count);
  // weights[i] = exp((logits[i] - highest) * inverse_temperature)
  void (*exponentiate)(const float* logits, float highest, float inverse_temperature, float* weights,
                       std::size_t count);
};

#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
// It computes products of rows in f32 for AVX-512 with bf16 as well.
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;

// All that a set has of its own whose other kernels are those of the set before it.
void multiply_on_avx2_vnni(const MatmulBlock& block);
void multiply_on_amx(const MatmulBlock& block);
// Rows have the same bits in every batch there, as they must. One thread at a time; some 2 ms.
bool rows_agree_on_amx();
#endif

// Throws std::invalid_argument when the ISA is not supported here.
const KernelTable& kernel_table(Isa isa);

}  // namespace troupe
