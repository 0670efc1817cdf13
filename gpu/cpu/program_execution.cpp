// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/program_execution.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>

#include "gpu/cpu/kernels/activate.hpp"
#include "gpu/cpu/kernels/add.hpp"
#include "gpu/cpu/kernels/attention/self_attention.hpp"
#include "gpu/cpu/kernels/embed.hpp"
#include "gpu/cpu/kernels/embed_positions.hpp"
#include "gpu/cpu/kernels/embed_sinusoids.hpp"
#include "gpu/cpu/kernels/experts/expert_routing.hpp"
#include "gpu/cpu/kernels/gated_activation.hpp"
#include "gpu/cpu/kernels/gather_rows.hpp"
#include "gpu/cpu/kernels/head_norm.hpp"
#include "gpu/cpu/kernels/layer_norm.hpp"
#include "gpu/cpu/kernels/matmul/expert_matmul.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/cpu/kernels/matmul/onednn_matmul.hpp"
#include "gpu/cpu/kernels/pool.hpp"
#include "gpu/cpu/kernels/rms_norm.hpp"
#include "gpu/cpu/kernels/short_convolution.hpp"
#include "gpu/cpu/kernels/soft_cap.hpp"
#include "gpu/model/block_formats.hpp"

namespace troupe {
namespace {

// From so many rows up a bound oneDNN matrix is used instead of ours.
constexpr std::size_t kOnednnMinRows = 16;

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

}  // namespace

void ProgramRunner::BoundProgram::find_weight(const CpuWeights& weights, TensorId id) {
  const TensorSpec& tensor = program.tensors[id];
  matrices[id] = weights.find_matrix(tensor.name);
  vectors[id] = weights.find_vector(tensor.name);
  tables[id] = weights.find_table(tensor.name);
  const std::size_t elements = std::size_t{tensor.fixed_rows} * tensor.columns;
  const bool fits = matrices[id] != nullptr ? matrices[id]->num_outputs() == tensor.fixed_rows &&
                                                  matrices[id]->num_inputs() == tensor.columns
                    : vectors[id] != nullptr ? vectors[id]->size() == elements
                    : tables[id] != nullptr  ? tables[id]->num_elements() == elements
                                             : false;
  if (!fits) refuse("the program's weight \"" + tensor.name + "\" is not on this device");
}

float* ProgramRunner::Execution::floats(TensorId id) const {
  const TensorSpec& tensor = program_.tensors[id];
  if (tensor.type != DataType::kF32) refuse("tensor \"" + tensor.name + "\" must be f32");
  return static_cast<float*>(address(id));
}

std::int32_t* ProgramRunner::Execution::integers(TensorId id) const {
  const TensorSpec& tensor = program_.tensors[id];
  if (tensor.type != DataType::kI32) refuse("tensor \"" + tensor.name + "\" must be i32");
  return static_cast<std::int32_t*>(address(id));
}

std::vector<float> ProgramRunner::Execution::states() const {
  const TensorId x = program_.state->tensor;
  std::vector<float> states;
  std::size_t behind = 0;  // the slice's tokens
  for (const SequenceSlice& slice : batch_.slices) {
    behind += slice.num_tokens;
    if (!slice.wants_state) continue;
    const float* row = floats(x) + (behind - 1) * columns(x);
    states.insert(states.end(), row, row + columns(x));
  }
  return states;
}

std::size_t ProgramRunner::Execution::rows(TensorId id) const {
  switch (program_.tensors[id].rows) {
    case RowCount::kOutputRows: return runner_.output_rows_.size();
    case RowCount::kSlices: return runner_.ranges_.size();
    case RowCount::kTokens:
    case RowCount::kFixed: break;
  }
  return runner_.token_ids_.size() * program_.tensors[id].rows_a_token;
}

const float* ProgramRunner::Execution::vector(TensorId id) const {
  if (bound_.vectors[id] == nullptr) {
    refuse("\"" + program_.tensors[id].name + "\" is not a vector");
  }
  return bound_.vectors[id]->data();
}

void ProgramRunner::Execution::execute(const Embed& embed, const Operator& op) {
  const CpuTable* table = bound_.tables[op.inputs.at(0)];
  if (table == nullptr) refuse("embed needs a table");
  const TensorId x = op.outputs.at(0);
  const std::size_t width = columns(x);
  const auto plain = layout_of(table->format).plain;
  const auto open_row = [table, width](std::size_t row, float* values) {
    table->open_row(row, {values, width});
  };
  const EmbedArguments arguments{.table = table->rows.data(),
                                 .table_type = plain.value_or(DataType::kF32),
                                 .table_stride = width,
                                 .open_row = plain ? OpenRow() : open_row,
                                 .vocabulary = program_.tensors[op.inputs[0]].fixed_rows,
                                 .token_ids = runner_.token_ids_,
                                 .x = floats(x),
                                 .x_stride = width,
                                 .width = width,
                                 .scale = embed.scale};
  run_tasks(arguments, embed_num_tasks(arguments), embed_run_task);
}

void ProgramRunner::Execution::execute(const RmsNorm& norm, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const TensorId normed = op.outputs.at(0);
  RmsNormArguments arguments{.x = floats(x),
                             .x_stride = columns(x),
                             .weight = vector(op.inputs.at(1)),
                             .normed = address(normed),
                             .normed_type = type(normed),
                             .normed_stride = columns(normed),
                             .num_rows = rows(x),
                             .width = columns(x),
                             .epsilon = norm.epsilon};
  if (op.inputs.size() > 2) {
    arguments.residual = floats(op.inputs[2]);
    arguments.residual_stride = columns(op.inputs[2]);
  }
  run_tasks(arguments, rms_norm_num_tasks(arguments), rms_norm_run_task);
}

Q8Rows ProgramRunner::Execution::round_rows(TensorId a, const CpuMatrix& weight) {
  if (std::none_of(weight.parts.begin(), weight.parts.end(),
                   [this](const PackedMatrix& part) { return takes_rounded_rows(part); }))
    return {};
  if (q8_rows_bytes(rows(a), columns(a)) > runner_.rounded_rows_.size_bytes())
    refuse("rows in 8 bits of \"" + program_.tensors[a].name + "\" are more than planned for");
  const RoundRowsArguments arguments{.a = address(a),
                                     .a_type = type(a),
                                     .a_stride = columns(a),
                                     .num_inputs = columns(a),
                                     .rows = place_q8_rows(runner_.rounded_rows_.get(), rows(a), columns(a))};
  run_tasks(arguments, round_rows_num_tasks(arguments), round_rows_run_task);
  return arguments.rows;
}

void ProgramRunner::Execution::execute(const Matmul&, const Operator& op) {
  const TensorId a = op.inputs.at(0);
  const TensorId c = op.outputs.at(0);
  const CpuMatrix* weight = bound_.matrices[op.inputs.at(1)];
  if (weight == nullptr) refuse("matmul needs a matrix");
  const float* bias = op.inputs.size() > 2 ? vector(op.inputs[2]) : nullptr;
  if (weight->onednn && rows(a) >= kOnednnMinRows && type(a) == weight->onednn->type()) {
    const OnednnMatmulArguments arguments{.weight = &*weight->onednn,
                                          .a = address(a),
                                          .a_stride = columns(a),
                                          .bias = bias,
                                          .c = floats(c),
                                          .c_stride = columns(c),
                                          .num_rows = rows(a)};
    run_tasks(arguments, onednn_matmul_num_tasks(arguments), onednn_matmul_run_task);
    return;
  }
  const Q8Rows q8_rows = round_rows(a, *weight);
  std::size_t first = 0;  // output of the part
  for (const PackedMatrix& part : weight->parts) {
    const MatmulArguments arguments{.weight = &part,
                                    .a = address(a),
                                    .a_type = type(a),
                                    .a_stride = columns(a),
                                    .q8_rows = takes_rounded_rows(part) ? q8_rows : Q8Rows{},
                                    .bias = bias == nullptr ? nullptr : bias + first,
                                    .c = floats(c) + first,
                                    .c_stride = columns(c),
                                    .num_rows = rows(a),
                                    .num_threads = runner_.threads_.num_threads()};
    run_tasks(arguments, matmul_num_tasks(arguments), matmul_run_task);
    first += part.num_outputs();
  }
}

void ProgramRunner::Execution::execute(const HeadNorm& norm, const Operator& op) {
  const TensorId qkv = op.inputs.at(0);
  const HeadNormArguments arguments{.qkv = floats(qkv),
                                    .qkv_stride = columns(qkv),
                                    .query_weight = vector(op.inputs.at(1)),
                                    .key_weight = vector(op.inputs.at(2)),
                                    .num_rows = rows(qkv),
                                    .num_heads = runner_.settings_.num_heads,
                                    .num_kv_heads = runner_.settings_.kv_layout.num_kv_heads,
                                    .head_dim = runner_.settings_.kv_layout.head_dim,
                                    .epsilon = norm.epsilon};
  run_tasks(arguments, head_norm_num_tasks(arguments), head_norm_run_task);
}

// Before a layer's KV is read or written.
void ProgramRunner::Execution::wait_for_kv(std::uint32_t layer) const {
  if (copies_ != nullptr) copies_->wait_for_layer(layer);
}

void ProgramRunner::Execution::execute(const RotaryAppendKv& rotary, const Operator& op) {
  wait_for_kv(rotary.layer);
  const TensorId qkv = op.inputs.at(0);
  const RotaryTable* table = rotary.is_local ? runner_.rotary_.local.get() : runner_.rotary_.all.get();
  if (rotary.rotates && table == nullptr) refuse("the device has no table of this rotation");
  const RotaryAppendKvArguments arguments{.qkv = floats(qkv),
                                          .qkv_stride = columns(qkv),
                                          .places = runner_.places_,
                                          .num_heads = rotary.has_queries ? runner_.settings_.num_heads : 0,
                                          .table = rotary.rotates ? table : nullptr,
                                          .kv_pool = runner_.kv_pool_.get(),
                                          .layout = runner_.settings_.kv_layout,
                                          .layer = rotary.layer};
  run_tasks(arguments, rotary_append_kv_num_tasks(arguments), rotary_append_kv_run_task);
}

void ProgramRunner::Execution::execute(const PagedAttention& attention, const Operator& op) {
  wait_for_kv(attention.layer);
  const TensorId qkv = op.inputs.at(0);
  const TensorId attended = op.outputs.at(0);
  const auto& layout = runner_.settings_.kv_layout;
  const float usual_scale = 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
  const PagedAttentionArguments arguments{.blocks = runner_.split_blocks_.blocks,
                                          .merges = runner_.split_blocks_.merges,
                                          .partials = runner_.partials_.data(),
                                          .page_table = batch_.page_table.data(),
                                          .kv_pool = runner_.kv_pool_.get(),
                                          .layout = layout,
                                          .layer = attention.layer,
                                          .num_heads = runner_.settings_.num_heads,
                                          .queries = floats(qkv),
                                          .query_stride = columns(qkv),
                                          .attended = address(attended),
                                          .attended_type = type(attended),
                                          .attended_stride = columns(attended),
                                          .part = attention.part,
                                          .window = attention.window,
                                          .scale = attention.scale != 0.0F ? attention.scale : usual_scale,
                                          .sinks = op.inputs.size() > 1 ? vector(op.inputs[1]) : nullptr,
                                          .soft_cap = attention.soft_cap};
  run_tasks(arguments, paged_attention_num_tasks(arguments), paged_attention_run_task);
  run_tasks(arguments, merge_splits_num_tasks(arguments), merge_splits_run_task);
}

void ProgramRunner::Execution::execute(const ShortConvolution& convolution, const Operator& op) {
  wait_for_kv(convolution.layer + convolution.num_layers - 1);
  const TensorId bcx = op.inputs.at(0), y = op.outputs.at(0);
  const std::size_t num_weights = program_.tensors[op.inputs.at(1)].columns;
  const ShortConvolutionArguments arguments{.places = runner_.places_,
                                            .blocks = runner_.attention_blocks_,
                                            .page_table = batch_.page_table.data(),
                                            .kv_pool = runner_.kv_pool_.get(),
                                            .layout = runner_.settings_.kv_layout,
                                            .layer = convolution.layer,
                                            .num_layers = convolution.num_layers,
                                            .bcx = floats(bcx),
                                            .bcx_stride = columns(bcx),
                                            .weight = vector(op.inputs.at(1)),
                                            .num_taps = num_weights / columns(y),
                                            .width = columns(y),
                                            .y = address(y),
                                            .y_type = type(y),
                                            .y_stride = columns(y)};
  run_tasks(arguments, append_convolved_num_tasks(arguments), append_convolved_run_task);
  run_tasks(arguments, short_convolution_num_tasks(arguments), short_convolution_run_task);
}

void ProgramRunner::Execution::execute(const GatedActivation& gated, const Operator& op) {
  const TensorId gate_up = op.inputs.at(0);
  const TensorId h = op.outputs.at(0);
  const GatedActivationArguments arguments{.activation = gated.activation,
                                           .gate_up = floats(gate_up),
                                           .gate_up_stride = columns(gate_up),
                                           .h = address(h),
                                           .h_type = type(h),
                                           .h_stride = columns(h),
                                           .num_rows = rows(gate_up),
                                           .width = columns(h)};
  run_tasks(arguments, gated_activation_num_tasks(arguments), gated_activation_run_task);
}

void ProgramRunner::Execution::execute(const RouteExperts& route, const Operator& op) {
  const TensorId logits = op.inputs.at(0);
  const TensorId shares = op.outputs.at(0);
  const RouteExpertsArguments arguments{.logits = floats(logits),
                                        .num_tokens = rows(logits),
                                        .num_experts = columns(logits),
                                        .num_chosen = columns(shares),
                                        .normalizes = route.normalizes,
                                        .shares = floats(shares),
                                        .places = integers(op.outputs.at(1)),
                                        .bounds = integers(op.outputs.at(2))};
  run_tasks(arguments, route_experts_num_tasks(arguments), route_experts_run_task);
  place_choices(arguments);
}

void ProgramRunner::Execution::execute(const GroupRows&, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const TensorId places = op.inputs.at(1);
  const GroupRowsArguments arguments{.x = static_cast<const std::byte*>(address(x)),
                                     .row_bytes = columns(x) * size_of(type(x)),
                                     .places = integers(places),
                                     .num_tokens = rows(x),
                                     .num_chosen = columns(places),
                                     .grouped = static_cast<std::byte*>(address(op.outputs.at(0)))};
  run_tasks(arguments, group_rows_num_tasks(arguments), group_rows_run_task);
}

void ProgramRunner::Execution::execute(const ExpertMatmul&, const Operator& op) {
  const TensorId a = op.inputs.at(0);
  const TensorId bounds = op.inputs.at(1);
  const TensorId c = op.outputs.at(0);
  const CpuMatrix* weight = bound_.matrices[op.inputs.at(2)];
  if (weight == nullptr) refuse("the products of experts need a matrix");
  const ExpertProducts plan =
      plan_expert_matmul({.weight = &weight->parts.front(),
                          .num_experts = columns(bounds) - 1,
                          .bounds = integers(bounds),
                          .a = address(a),
                          .a_type = type(a),
                          .a_stride = columns(a),
                          .q8_rows = round_rows(a, *weight),
                          .bias = op.inputs.size() > 3 ? vector(op.inputs[3]) : nullptr,
                          .c = floats(c),
                          .c_stride = columns(c),
                          .num_threads = runner_.threads_.num_threads()});
  run_tasks(plan, expert_matmul_num_tasks(plan), expert_matmul_run_task);
}

void ProgramRunner::Execution::execute(const CombineExperts&, const Operator& op) {
  const TensorId grouped = op.inputs.at(0);
  const TensorId places = op.inputs.at(1);
  const TensorId sums = op.outputs.at(0);
  const CombineExpertsArguments arguments{.grouped = floats(grouped),
                                          .places = integers(places),
                                          .shares = floats(op.inputs.at(2)),
                                          .num_tokens = rows(sums),
                                          .num_chosen = columns(places),
                                          .width = columns(sums),
                                          .sums = floats(sums)};
  run_tasks(arguments, combine_experts_num_tasks(arguments), combine_experts_run_task);
}

// Without a residual rows are copied, whatever they are made of: as so many floats.
void ProgramRunner::Execution::execute(const GatherRows&, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const TensorId gathered = op.outputs.at(0);
  if (type(gathered) != type(x)) refuse("rows are gathered in the type that they have");
  const std::size_t width = columns(x) * size_of(type(x)) / sizeof(float);
  GatherRowsArguments arguments{.x = static_cast<const float*>(address(x)),
                                .x_stride = width,
                                .rows = runner_.output_rows_,
                                .gathered = static_cast<float*>(address(gathered)),
                                .gathered_stride = width,
                                .width = width};
  if (op.inputs.size() > 1) {
    arguments.x = floats(x);
    arguments.residual = floats(op.inputs[1]);
    arguments.residual_stride = columns(op.inputs[1]);
  }
  run_tasks(arguments, gather_rows_num_tasks(arguments), gather_rows_run_task);
}

void ProgramRunner::Execution::execute(const SoftCap& soft_cap, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const SoftCapArguments arguments{.x = floats(x), .num_elements = rows(x) * columns(x), .cap = soft_cap.cap};
  run_tasks(arguments, soft_cap_num_tasks(arguments), soft_cap_run_task);
}

void ProgramRunner::Execution::execute(const Sample&, const Operator& op) {
  const TensorId logits = op.inputs.at(0);
  const std::size_t num_rows = runner_.output_rows_.size();
  if (runner_.settings_.on_logits) {
    runner_.settings_.on_logits(batch_, {floats(logits), num_rows * columns(logits)});
  }
  runner_.take_masks(batch_);
  runner_.sampled_.resize(num_rows);
  const SampleArguments arguments{.logits = floats(logits),
                                  .logits_stride = columns(logits),
                                  .vocabulary = columns(logits),
                                  .rows = runner_.sample_rows_,
                                  .token_ids = runner_.sampled_.data(),
                                  .logprobs = runner_.logprobs_.data()};
  run_tasks(arguments, sample_num_tasks(arguments), sample_run_task);
}

void ProgramRunner::Execution::execute(const Add&, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const AddArguments arguments{
      .x = floats(x), .y = floats(op.inputs.at(1)), .num_elements = rows(x) * columns(x)};
  run_tasks(arguments, add_num_tasks(arguments), add_run_task);
}

EmbeddingTable ProgramRunner::Execution::table(TensorId id) const {
  const CpuTable* found = bound_.tables[id];
  if (found == nullptr) refuse("\"" + program_.tensors[id].name + "\" is not a table");
  const auto type = layout_of(found->format).plain;
  if (!type) refuse("the table \"" + program_.tensors[id].name + "\" is in blocks");
  return {found->rows.data(), *type, program_.tensors[id].fixed_rows};
}

void ProgramRunner::Execution::execute(const EmbedPositions& embed, const Operator& op) {
  const TensorId x = op.outputs.at(0);
  EmbedPositionsArguments arguments{.words = table(op.inputs.at(0)),
                                    .positions = table(op.inputs.at(1)),
                                    .token_ids = runner_.token_ids_,
                                    .token_positions = runner_.positions_,
                                    .token_types = runner_.types_,
                                    .first_position = embed.first_position,
                                    .x = floats(x),
                                    .width = columns(x)};
  if (op.inputs.size() > 2) arguments.types = table(op.inputs[2]);
  run_tasks(arguments, embed_positions_num_tasks(arguments), embed_positions_run_task);
}

void ProgramRunner::Execution::execute(const EmbedSinusoids& embed, const Operator& op) {
  const TensorId x = op.outputs.at(0);
  if (columns(x) % 2 != 0) refuse("waves of positions need an even width");
  const EmbedSinusoidsArguments arguments{.words = table(op.inputs.at(0)),
                                          .token_ids = runner_.token_ids_,
                                          .token_positions = runner_.positions_,
                                          .scale = embed.scale,
                                          .first_position = embed.first_position,
                                          .ends_at_slowest = embed.ends_at_slowest,
                                          .x = floats(x),
                                          .width = columns(x)};
  run_tasks(arguments, embed_sinusoids_num_tasks(arguments), embed_sinusoids_run_task);
}

void ProgramRunner::Execution::execute(const LayerNorm& norm, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  LayerNormArguments arguments{.x = floats(x),
                               .weight = vector(op.inputs.at(1)),
                               .bias = vector(op.inputs.at(2)),
                               .normed = floats(op.outputs.at(0)),
                               .num_rows = rows(x),
                               .width = columns(x),
                               .epsilon = norm.epsilon};
  if (op.inputs.size() > 3) arguments.residual = floats(op.inputs[3]);
  if (op.outputs.size() > 1) {
    if (type(op.outputs[1]) != DataType::kBF16) refuse("a norm's second result must be bf16");
    arguments.rounded = static_cast<std::uint16_t*>(address(op.outputs[1]));
  }
  run_tasks(arguments, layer_norm_num_tasks(arguments), layer_norm_run_task);
}

void ProgramRunner::Execution::execute(const Activate& activate, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const TensorId h = op.outputs.at(0);
  const ActivateArguments arguments{.activation = activate.activation,
                                    .x = floats(x),
                                    .h = address(h),
                                    .h_type = type(h),
                                    .num_rows = rows(x),
                                    .width = columns(x)};
  run_tasks(arguments, activate_num_tasks(arguments), activate_run_task);
}

// Each thread takes the next task and has scratch memory of its own.
void ProgramRunner::Execution::execute(const SelfAttention&, const Operator& op) {
  const TensorId attended = op.outputs.at(0);
  const std::size_t head_dim = runner_.settings_.kv_layout.head_dim;
  const SelfAttentionArguments arguments{.slices = runner_.longest_first_,
                                         .qkv = floats(op.inputs.at(0)),
                                         .num_heads = runner_.settings_.num_heads,
                                         .head_dim = head_dim,
                                         .attended = address(attended),
                                         .attended_type = type(attended),
                                         .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
  const std::size_t num_tasks = self_attention_num_tasks(arguments);
  std::atomic<std::size_t> next{0};
  runner_.threads_.run(runner_.threads_.num_threads(), [&](std::size_t thread) {
    std::byte* scratch = runner_.scratch_.get() + thread * runner_.scratch_bytes_;
    for (std::size_t task = next++; task < num_tasks; task = next++)
      self_attention_run_task(arguments, task, scratch);
  });
}

void ProgramRunner::Execution::execute(const Pool& pool, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const std::size_t width = columns(x);
  const PoolArguments arguments{.x = floats(x),
                                .slices = runner_.ranges_,
                                .vectors = op.outputs.empty() ? result(width) : floats(op.outputs[0]),
                                .width = width,
                                .mode = pool.mode,
                                .normalizes = pool.normalizes};
  run_tasks(arguments, pool_num_tasks(arguments), pool_run_task);
}

void ProgramRunner::Execution::execute(const WriteVectors&, const Operator& op) {
  const TensorId from = op.inputs.at(0);
  std::copy_n(floats(from), rows(from) * columns(from), result(columns(from)));
}

// Columns below `end` of the rows are used.
StateRows ProgramRunner::Execution::state_rows(std::size_t end) const {
  const std::size_t width = runner_.settings_.row_width;
  if (end > width) refuse("rows of state have " + std::to_string(width) + " floats");
  return {.rows = reinterpret_cast<float*>(runner_.state_.get()),
          .width = width,
          .nodes = runner_.nodes_,
          .inputs = batch_.input_rows,
          .zeros = runner_.zeros_.data()};
}

void ProgramRunner::Execution::execute(const GatherState& gather, const Operator& op) {
  const GatherStateArguments arguments{.state = state_rows(gather.offset + gather.width),
                                       .offset = gather.offset,
                                       .width = gather.width,
                                       .first_input = gather.first_input,
                                       .num_inputs = gather.num_inputs,
                                       .sums = gather.sums,
                                       .gathered = floats(op.outputs.at(0))};
  run_tasks(arguments, gather_state_num_tasks(arguments), gather_state_run_task);
}

void ProgramRunner::Execution::execute(const KeepState& keep, const Operator& op) {
  const TensorId x = op.inputs.at(0);
  const KeepStateArguments arguments{.state = state_rows(keep.offset + columns(x)),
                                     .offset = keep.offset,
                                     .width = columns(x),
                                     .x = floats(x)};
  run_tasks(arguments, keep_state_num_tasks(arguments), keep_state_run_task);
}

void ProgramRunner::Execution::execute(const LstmCell& cell, const Operator& op) {
  const TensorId h = op.outputs.at(0);
  const LstmCellArguments arguments{.state = state_rows(std::max(cell.h_offset, cell.c_offset) + columns(h)),
                                    .h_offset = cell.h_offset,
                                    .c_offset = cell.c_offset,
                                    .input_gates = floats(op.inputs.at(0)),
                                    .state_gates = floats(op.inputs.at(1)),
                                    .h = floats(h),
                                    .width = columns(h)};
  run_tasks(arguments, lstm_cell_num_tasks(arguments), lstm_cell_run_task);
}

void ProgramRunner::Execution::execute(const GruCell& cell, const Operator& op) {
  const TensorId h = op.outputs.at(0);
  const GruCellArguments arguments{.state = state_rows(cell.h_offset + columns(h)),
                                   .h_offset = cell.h_offset,
                                   .input_gates = floats(op.inputs.at(0)),
                                   .state_gates = floats(op.inputs.at(1)),
                                   .h = floats(h),
                                   .width = columns(h)};
  run_tasks(arguments, gru_cell_num_tasks(arguments), gru_cell_run_task);
}

void ProgramRunner::Execution::execute(const TreeLstmLeaf& leaf, const Operator& op) {
  run_tree_nodes(
      {.state = {}, .kind = TreeNodeKind::kLeaf, .h_offset = leaf.h_offset, .c_offset = leaf.c_offset}, op);
}

void ProgramRunner::Execution::execute(const TreeLstmBinary& node, const Operator& op) {
  run_tree_nodes(
      {.state = {}, .kind = TreeNodeKind::kBinary, .h_offset = node.h_offset, .c_offset = node.c_offset}, op);
}

void ProgramRunner::Execution::execute(const TreeLstmChildSum& node, const Operator& op) {
  const TensorId input_gates = op.inputs.at(1);
  const bool is_vector = program_.tensors[input_gates].role == TensorRole::kWeight;
  run_tree_nodes({.state = {},
                  .kind = TreeNodeKind::kChildSum,
                  .h_offset = node.h_offset,
                  .c_offset = node.c_offset,
                  .forget_offset = node.forget_offset,
                  .input_gates = is_vector ? vector(input_gates) : floats(input_gates),
                  .input_stride = is_vector ? 0 : columns(input_gates)},
                 op);
}

void ProgramRunner::Execution::run_tree_nodes(TreeLstmArguments arguments, const Operator& op) {
  const TensorId h = op.outputs.at(0);
  arguments.width = columns(h);
  arguments.state = state_rows(std::max({arguments.h_offset, arguments.c_offset, arguments.forget_offset}) +
                               arguments.width);
  arguments.gates = floats(op.inputs.at(0));
  arguments.h = floats(h);
  run_tasks(arguments, tree_lstm_num_tasks(arguments), tree_lstm_run_task);
}

void ProgramRunner::Execution::execute(const AttendStates& attend, const Operator& op) {
  const TensorId query = op.inputs.at(0);
  const AttendStatesArguments arguments{
      .state = state_rows(std::max(attend.key_offset, attend.value_offset) + columns(query)),
      .key_offset = attend.key_offset,
      .value_offset = attend.value_offset,
      .query = floats(query),
      .h = floats(op.inputs.at(1)),
      .context = floats(op.outputs.at(0)),
      .width = columns(query)};
  run_tasks(arguments, attend_states_num_tasks(arguments), attend_states_run_task);
}

void ProgramRunner::Execution::execute(const AdditiveAttention& attend, const Operator& op) {
  const TensorId query = op.inputs.at(0), x = op.inputs.at(1);
  const AdditiveAttentionArguments arguments{
      .state = state_rows(std::max(attend.key_offset, attend.value_offset) + columns(query)),
      .key_offset = attend.key_offset,
      .value_offset = attend.value_offset,
      .query = floats(query),
      .weight = vector(op.inputs.at(2)),
      .x = floats(x),
      .x_width = columns(x),
      .x_and_context = floats(op.outputs.at(0)),
      .width = columns(query)};
  run_tasks(arguments, additive_attention_num_tasks(arguments), additive_attention_run_task);
}

// [slices, width]
float* ProgramRunner::Execution::result(std::size_t width) const {
  if (runner_.vectors_.size() != runner_.ranges_.size() * width) {
    refuse("the cell's vectors are not of " + std::to_string(width) + " floats");
  }
  return runner_.vectors_.data();
}

}  // namespace troupe
