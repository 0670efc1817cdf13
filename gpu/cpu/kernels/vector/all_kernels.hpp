// SPDX-License-Identifier: Apache-2.0
// The list of the kernels, once for all instruction sets: each file kernels_<isa>.cpp compiles it with its
// own flags. All of it is local to that file, or the linker would keep one set's code for all.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/activation_kernels.hpp"
#include "gpu/cpu/kernels/vector/attention_block.hpp"
#include "gpu/cpu/kernels/vector/cell_kernels.hpp"
#include "gpu/cpu/kernels/vector/encoder_kernels.hpp"
#include "gpu/cpu/kernels/vector/q8_matmul.hpp"
#include "gpu/cpu/kernels/vector/q8_rows.hpp"
#include "gpu/cpu/kernels/vector/quantize_block.hpp"
#include "gpu/cpu/kernels/vector/quantized_matmul.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"

namespace troupe {
namespace {

constexpr KernelTable kAllKernels = {
    .to_f32 = to_f32,
    .to_bf16 = to_bf16,
    .multiply = multiply_any,
    .quantize = quantize,
    .round_row = round_row,
    .attend = attend,
    .merge_splits = merge_splits,
    .rotate_and_append = rotate_and_append,
    .normalize = normalize,
    .activate = activate,
    .add = add,
    .normalize_layer = normalize_layer,
    .activate_row = activate_row,
    .soft_cap = soft_cap,
    .add_row = add_row,
    .pack_head = pack_head,
    .pool = pool,
    .lstm_node = lstm_node,
    .gru_node = gru_node,
    .tree_leaf = tree_leaf,
    .tree_binary = tree_binary,
    .tree_child_sum = tree_child_sum,
    .dot = dot,
    .additive_score = additive_score,
    .add_scaled = add_scaled,
    .summarize = summarize,
    .exponentiate = exponentiate,
};

}  // namespace
}  // namespace troupe
