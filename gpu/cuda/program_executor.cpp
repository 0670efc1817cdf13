// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/program_executor.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cuda/gemm/gemm_setup.hpp"
#include "gpu/cuda/kernels/attention/head_norm.hpp"
#include "gpu/cuda/kernels/attention/paged_attention.hpp"
#include "gpu/cuda/kernels/attention/rotary_append_kv.hpp"
#include "gpu/cuda/kernels/attention/self_attention.hpp"
#include "gpu/cuda/kernels/cells/gather_state.hpp"
#include "gpu/cuda/kernels/cells/keep_state.hpp"
#include "gpu/cuda/kernels/cells/recurrent_cell.hpp"
#include "gpu/cuda/kernels/cells/state_attention.hpp"
#include "gpu/cuda/kernels/embed.hpp"
#include "gpu/cuda/kernels/embed_positions.hpp"
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/gemm/gated_gemm.hpp"
#include "gpu/cuda/kernels/gemm/qkv_gemm.hpp"
#include "gpu/cuda/kernels/gemm/residual_gemm.hpp"
#include "gpu/cuda/kernels/rows/activate.hpp"
#include "gpu/cuda/kernels/rows/gated_activation.hpp"
#include "gpu/cuda/kernels/rows/gather_rows.hpp"
#include "gpu/cuda/kernels/rows/layer_norm.hpp"
#include "gpu/cuda/kernels/rows/pool.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"
#include "gpu/cuda/kernels/sampling/sample.hpp"
#include "gpu/cuda/kernels/short_convolution.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kMaxBoundPrograms = 512;
constexpr std::uint64_t kPlaceAlignment = 256;  // bytes

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

}  // namespace

ArenaPlaces place_temporaries(const LoweredProgram& program, ProgramShape shape) {
  const auto plan = plan_arena(tensor_uses(program, shape));
  std::vector<std::uint64_t> first_of_chunk;
  ArenaPlaces places;
  for (const PlannedChunk& chunk : plan.chunks) {
    first_of_chunk.push_back(places.size_bytes);
    places.size_bytes += (chunk.size_bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  }
  for (const Placement& placement : plan.placements)
    places.offsets.push_back(first_of_chunk.empty() ? 0 : first_of_chunk[placement.chunk] + placement.offset);
  return places;
}

ProgramExecutor::ProgramExecutor(const ExecutorMemory& memory, const DeviceWeights& weights,
                                 CublasGemms& gemms, const GemmChoices& choices,
                                 const ExecutorSettings& settings)
    : memory_(memory), weights_(weights), gemms_(gemms), choices_(choices), settings_(settings) {}

const BoundProgram& ProgramExecutor::bind(const std::shared_ptr<const Program>& program) {
  if (const auto found = bound_.find(program.get()); found != bound_.end()) return *found->second;
  auto bound = std::make_unique<BoundProgram>();
  bound->program = program;
  bound->lowered = lower(*program, settings_.compute_type, settings_.may_fuse);
  const ArenaPlaces places = place_temporaries(bound->lowered, program->shape);
  if (places.size_bytes > memory_.arena_bytes)
    refuse("the program needs " + std::to_string(places.size_bytes) + " bytes of temporaries, planned were " +
           std::to_string(memory_.arena_bytes));
  const auto& tensors = bound->lowered.tensors;
  bound->temporaries.resize(tensors.size());
  bound->weights.resize(tensors.size());
  for (TensorId id = 0; id < tensors.size(); ++id) {
    if (tensors[id].role != TensorRole::kWeight) {
      bound->temporaries[id] = memory_.arena + places.offsets[id];
      continue;
    }
    bound->weights[id] = &weights_.find(tensors[id].name);
    if (bound->weights[id]->rows != tensors[id].fixed_rows ||
        bound->weights[id]->columns != tensors[id].columns)
      refuse("the program's weight \"" + tensors[id].name + "\" has another shape on this device");
  }
  for (const Step& step : bound->lowered.steps)
    if (std::holds_alternative<SampleStep>(step.kind)) bound->logits = step.inputs.at(0);
  if (bound_.size() >= kMaxBoundPrograms) bound_.clear();
  return *bound_.emplace(program.get(), std::move(bound)).first->second;
}

// One walk through the steps.
class ProgramExecutor::Queueing {
 public:
  Queueing(ProgramExecutor& executor, const BoundProgram& bound, const BatchOnDevice& batch,
           StreamHandle stream, const ExecutorHooks& hooks)
      : executor_(executor),
        memory_(executor.memory_),
        bound_(bound),
        batch_(batch),
        stream_(stream),
        hooks_(hooks) {}

  void run() {
    const auto& steps = bound_.lowered.steps;
    const auto& state = bound_.lowered.state;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (state && state->num_steps == i) hand_out(state->tensor);
      std::visit([&](const auto& kind) { queue(kind, steps[i]); }, steps[i].kind);
    }
  }

 private:
  std::uint32_t rows(TensorId id) const {
    switch (tensor(id).rows) {
      case RowCount::kOutputRows: return batch_.num_output_rows;
      case RowCount::kSlices: return batch_.capacity.slices;
      default: return batch_.num_tokens;
    }
  }
  const TensorSpec& tensor(TensorId id) const { return bound_.lowered.tensors[id]; }
  std::uint32_t columns(TensorId id) const { return tensor(id).columns; }
  std::byte* address(TensorId id) const { return bound_.temporaries[id]; }
  float* floats(TensorId id) const { return reinterpret_cast<float*>(address(id)); }
  const DeviceWeight& weight(TensorId id) const { return *bound_.weights[id]; }
  const float* vector(TensorId id) const { return reinterpret_cast<const float*>(weight(id).data); }
  // A batch's time begins with its first step, which is one of those that know the clock: embeddings, or the
  // gathering of states for cells that read no token.
  std::uint64_t* began(const Step& step) const {
    return &step == &bound_.lowered.steps.front() ? memory_.began : nullptr;
  }
  void enter(std::uint32_t layer) {
    if (!hooks_.before_layer || layer == layer_) return;
    layer_ = layer;
    hooks_.before_layer(layer);
  }

  // Reading only: no step is another for it.
  void hand_out(TensorId x) {
    if (batch_.capacity.state_rows == 0) return;
    launch_gather_rows({.x = floats(x),
                        .x_stride = columns(x),
                        .rows = batch_.input.state_rows,
                        .gathered = memory_.states,
                        .gathered_stride = columns(x),
                        .num_rows = batch_.capacity.state_rows,
                        .width = columns(x),
                        .overlaps_previous = executor_.settings_.overlaps_kernels},
                       stream_);
  }

  void queue(const EmbedStep&, const Step& step) {
    const DeviceWeight& table = weight(step.inputs.at(0));
    const TensorId x = step.outputs.at(0);
    launch_embed({.table = table.data,
                  .table_stride = table.columns,
                  .type = table.type,
                  .vocabulary = table.rows,
                  .token_ids = batch_.input.token_ids,
                  .slots = batch_.input.slots,
                  .tokens_of_slots = memory_.tokens_of_slots,
                  .x = floats(x),
                  .x_stride = columns(x),
                  .num_rows = rows(x),
                  .width = columns(x),
                  .began = began(step)},
                 stream_);
  }

  void queue(const NormStep& norm, const Step& step) {
    const TensorId x = step.inputs.at(0);
    const TensorId normed = step.outputs.at(0);
    launch_rms_norm({.x = floats(x),
                     .x_stride = columns(x),
                     .weight = vector(step.inputs.at(1)),
                     .normed = address(normed),
                     .normed_stride = columns(normed),
                     .type = tensor(normed).type,
                     .num_rows = rows(x),
                     .width = columns(x),
                     .epsilon = norm.epsilon,
                     .overlaps_previous = executor_.settings_.overlaps_kernels},
                    stream_);
  }

  void queue(const GemmStep& gemm, const Step& step) {
    const TensorId a = step.inputs.at(0);
    const TensorId c = step.outputs.at(0);
    const DeviceWeight& matrix = weight(step.inputs.at(1));
    const bool has_bias = step.inputs.size() > 2;
    const GemmShape shape{.num_tokens = rows(a),
                          .num_outputs = matrix.rows,
                          .depth = matrix.columns,
                          .type = matrix.type,
                          .c_type = tensor(c).type,
                          .has_bias = has_bias,
                          .adds = gemm.adds,
                          .is_exact = gemm.is_exact};
    if (takes_own_kernel(shape)) {
      FusedInput input{.has_bias = has_bias};
      launch_few_token_gemm({.input = few_tokens(input, step),
                             .c = address(c),
                             .c_stride = columns(c),
                             .c_type = tensor(c).type},
                            stream_);
      return;
    }
    GemmPointers pointers{.a = address(a), .weight = matrix.data, .c = address(c)};
    if (has_bias) {
      const DeviceWeight& bias = weight(step.inputs[2]);
      pointers.bias = shape.c_type == DataType::kF32 ? bias.data : bias.in_compute_type;
    }
    executor_.gemms_.run(shape, pointers, stream_);
  }

  // As measured; what was not goes to the own kernel if it is for few tokens.
  bool takes_own_kernel(const GemmShape& shape) const {
    const auto found = executor_.choices_.find(bin_of(shape));
    if (found != executor_.choices_.end() && found->second.kernel != GemmKernel::kFewTokens) return false;
    return can_use_own_kernel(shape);
  }

  void queue(const HeadNormStep& norm, const Step& step) {
    const TensorId qkv = step.inputs.at(0);
    launch_head_norm({.qkv = address(qkv),
                      .qkv_stride = columns(qkv),
                      .query_weight = vector(step.inputs.at(1)),
                      .key_weight = vector(step.inputs.at(2)),
                      .type = tensor(qkv).type,
                      .num_tokens = rows(qkv),
                      .num_heads = executor_.settings_.num_heads,
                      .num_kv_heads = static_cast<std::uint32_t>(memory_.layout.num_kv_heads),
                      .head_dim = static_cast<std::uint32_t>(memory_.layout.head_dim),
                      .epsilon = norm.epsilon,
                      .overlaps_previous = executor_.settings_.overlaps_kernels},
                     stream_);
  }

  void queue(const RotaryStep& rotary, const Step& step) {
    enter(rotary.layer);
    const TensorId qkv = step.inputs.at(0);
    launch_rotary_append_kv({.qkv = address(qkv),
                             .qkv_stride = columns(qkv),
                             .places = batch_.input.places,
                             .num_tokens = rows(qkv),
                             .num_heads = executor_.settings_.num_heads,
                             .rotary_dim = rotary.rotates ? executor_.settings_.rotary_dim : 0,
                             .cosines_sines = memory_.cosines_sines,
                             .pool = memory_.pool,
                             .layout = memory_.layout,
                             .layer = rotary.layer,
                             .overlaps_previous = executor_.settings_.overlaps_kernels},
                            stream_);
  }

  void queue(const AttentionStep& attention, const Step& step) {
    enter(attention.layer);
    const TensorId queries = step.inputs.at(0);
    const TensorId attended = step.outputs.at(0);
    const auto num_kv_heads = static_cast<std::uint32_t>(memory_.layout.num_kv_heads);
    const float usual_scale = 1.0F / std::sqrt(static_cast<float>(memory_.layout.head_dim));
    const PagedAttentionArguments arguments{.page_table = batch_.input.page_table,
                                            .pool = memory_.pool,
                                            .layout = memory_.layout,
                                            .layer = attention.layer,
                                            .group_size = executor_.settings_.num_heads / num_kv_heads,
                                            .window = attention.window,
                                            .scale = attention.scale != 0.0F ? attention.scale : usual_scale,
                                            .queries = address(queries),
                                            .query_stride = columns(queries),
                                            .attended = address(attended),
                                            .attended_stride = columns(attended),
                                            .partials = memory_.partials,
                                            .overlaps_previous = executor_.settings_.overlaps_kernels};
    DeviceAttentionPlan plan{.merges = batch_.input.merges,
                             .counts = batch_.has_spare_blocks ? batch_.input.counts : nullptr};
    std::copy(std::begin(batch_.input.items), std::end(batch_.input.items), plan.items.begin());
    for (const AttentionRound& round : batch_.attention_rounds) {
      plan.num_items = round.num_items;
      plan.num_merges = round.num_merges;
      launch_paged_attention(arguments, plan, stream_);
      for (std::size_t i = 0; i < plan.items.size(); ++i) plan.items[i] += round.num_items[i];
      plan.merges += round.num_merges;
    }
  }

  void queue(const GatedActivationStep&, const Step& step) {
    const TensorId gate_up = step.inputs.at(0);
    const TensorId h = step.outputs.at(0);
    launch_gated_activation({.gate_up = address(gate_up),
                             .gate_up_stride = columns(gate_up),
                             .h = address(h),
                             .h_stride = columns(h),
                             .type = tensor(h).type,
                             .num_rows = rows(gate_up),
                             .width = columns(h),
                             .overlaps_previous = executor_.settings_.overlaps_kernels},
                            stream_);
  }

  void queue(const GatherStep&, const Step& step) {
    const TensorId x = step.inputs.at(0);
    const TensorId gathered = step.outputs.at(0);
    launch_gather_rows({.x = floats(x),
                        .x_stride = columns(x),
                        .rows = batch_.input.output_rows,
                        .gathered = floats(gathered),
                        .gathered_stride = columns(gathered),
                        .num_rows = rows(gathered),
                        .width = columns(x),
                        .overlaps_previous = executor_.settings_.overlaps_kernels},
                       stream_);
  }

  void queue(const SampleStep&, const Step& step) {
    const TensorId logits = step.inputs.at(0);
    if (hooks_.before_sampling) hooks_.before_sampling();
    launch_sample({.logits = floats(logits),
                   .logits_stride = columns(logits),
                   .vocabulary = columns(logits),
                   .rows = batch_.input.sample_rows,
                   .suppressed = batch_.input.suppressed,
                   .masks = batch_.input.masks,
                   .token_ids = memory_.sampled,
                   .tokens_of_slots = memory_.tokens_of_slots,
                   .penalized = batch_.input.penalized,
                   .penalized_logits = batch_.input.penalized_logits,
                   .biased = batch_.input.biased,
                   .biased_logits = batch_.input.biased_logits,
                   .recent_tokens = memory_.recent_tokens,
                   .logprobs = memory_.logprobs,
                   .num_rows = rows(logits),
                   .overlaps_previous = executor_.settings_.overlaps_kernels},
                  stream_);
  }

  void queue(const EmbedPositions& embed, const Step& step) {
    const DeviceWeight& words = weight(step.inputs.at(0));
    const DeviceWeight* types = step.inputs.size() > 2 ? &weight(step.inputs[2]) : nullptr;
    const TensorId x = step.outputs.at(0);
    launch_embed_positions({.words = words.data,
                            .positions = weight(step.inputs.at(1)).data,
                            .types = types == nullptr ? nullptr : types->data,
                            .type = words.type,
                            .vocabulary = words.rows,
                            .num_types = types == nullptr ? 0 : types->rows,
                            .token_ids = batch_.input.token_ids,
                            .slots = batch_.input.slots,
                            .tokens_of_slots = memory_.tokens_of_slots,
                            .places = batch_.input.places,
                            .token_types = batch_.input.token_types,
                            .first_position = embed.first_position,
                            .x = floats(x),
                            .num_rows = rows(x),
                            .width = columns(x),
                            .began = began(step)},
                           stream_);
  }

  void queue(const LayerNorm& norm, const Step& step) {
    const TensorId x = step.inputs.at(0);
    const bool is_rounded = step.outputs.size() > 1;
    launch_layer_norm({.x = floats(x),
                       .residual = step.inputs.size() > 3 ? floats(step.inputs[3]) : nullptr,
                       .weight = vector(step.inputs.at(1)),
                       .bias = vector(step.inputs.at(2)),
                       .normed = floats(step.outputs.at(0)),
                       .rounded = is_rounded ? address(step.outputs[1]) : nullptr,
                       .type = is_rounded ? tensor(step.outputs[1]).type : DataType::kF32,
                       .num_rows = rows(x),
                       .width = columns(x),
                       .epsilon = norm.epsilon,
                       .overlaps_previous = executor_.settings_.overlaps_kernels},
                      stream_);
  }

  void queue(const Activate& activate, const Step& step) {
    const TensorId x = step.inputs.at(0);
    const TensorId h = step.outputs.at(0);
    launch_activate({.activation = activate.activation,
                     .x = address(x),
                     .x_type = tensor(x).type,
                     .h = address(h),
                     .h_type = tensor(h).type,
                     .num_rows = rows(x),
                     .width = columns(x),
                     .overlaps_previous = executor_.settings_.overlaps_kernels},
                    stream_);
  }

  void queue(const SelfAttention&, const Step& step) {
    const TensorId qkv = step.inputs.at(0);
    const auto head_dim = static_cast<std::uint32_t>(memory_.layout.head_dim);
    launch_self_attention({.tiles = batch_.input.tiles,
                           .num_tiles = batch_.capacity.tiles,
                           .qkv = address(qkv),
                           .num_heads = executor_.settings_.num_heads,
                           .head_dim = head_dim,
                           .attended = address(step.outputs.at(0)),
                           .type = tensor(qkv).type,
                           .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))},
                          stream_);
  }

  void queue(const Pool& pool, const Step& step) {
    const TensorId x = step.inputs.at(0);
    launch_pool({.x = floats(x),
                 .slices = batch_.input.slices,
                 .num_slices = batch_.capacity.slices,
                 .vectors = step.outputs.empty() ? memory_.vectors : floats(step.outputs[0]),
                 .width = columns(x),
                 .mode = pool.mode,
                 .normalizes = pool.normalizes},
                stream_);
  }

  void queue(const WriteVectors&, const Step& step) {
    const TensorId from = step.inputs.at(0);
    CUDA_CHECK(cudaMemcpyAsync(memory_.vectors, address(from),
                               std::size_t{rows(from)} * columns(from) * sizeof(float),
                               cudaMemcpyDeviceToDevice, stream_));
  }

  // Columns below `end` of the rows are used.
  StateRows state_rows(std::size_t end) const {
    if (end > memory_.state_width)
      refuse("rows of state have " + std::to_string(memory_.state_width) + " floats");
    return {.rows = memory_.state,
            .width = memory_.state_width,
            .nodes = batch_.input.nodes,
            .inputs = batch_.input.input_rows,
            .num_nodes = batch_.num_tokens};
  }

  void queue(const GatherState& gather, const Step& step) {
    const TensorId gathered = step.outputs.at(0);
    launch_gather_state({.state = state_rows(std::size_t{gather.offset} + gather.width),
                         .offset = gather.offset,
                         .width = gather.width,
                         .first_input = gather.first_input,
                         .num_inputs = gather.num_inputs,
                         .sums = gather.sums,
                         .gathered = address(gathered),
                         .type = tensor(gathered).type,
                         .began = began(step),
                         .overlaps_previous = executor_.settings_.overlaps_kernels && began(step) == nullptr},
                        stream_);
  }

  void queue(const KeepState& keep, const Step& step) {
    const TensorId x = step.inputs.at(0);
    launch_keep_state({.state = state_rows(std::size_t{keep.offset} + columns(x)),
                       .offset = keep.offset,
                       .x = floats(x),
                       .width = columns(x),
                       .overlaps_previous = executor_.settings_.overlaps_kernels},
                      stream_);
  }

  void queue(const LstmCell& cell, const Step& step) {
    queue_cell({.cell = RecurrentCell::kLstm,
                .state = {},
                .h_offset = cell.h_offset,
                .c_offset = cell.c_offset,
                .input_gates = floats(step.inputs.at(0)),
                .state_gates = floats(step.inputs.at(1))},
               step);
  }

  void queue(const GruCell& cell, const Step& step) {
    queue_cell({.cell = RecurrentCell::kGru,
                .state = {},
                .h_offset = cell.h_offset,
                .input_gates = floats(step.inputs.at(0)),
                .state_gates = floats(step.inputs.at(1))},
               step);
  }

  void queue(const TreeLstmLeaf& leaf, const Step& step) {
    queue_cell({.cell = RecurrentCell::kTreeLeaf,
                .state = {},
                .h_offset = leaf.h_offset,
                .c_offset = leaf.c_offset,
                .input_gates = floats(step.inputs.at(0))},
               step);
  }

  void queue(const TreeLstmBinary& node, const Step& step) {
    queue_cell({.cell = RecurrentCell::kTreeBinary,
                .state = {},
                .h_offset = node.h_offset,
                .c_offset = node.c_offset,
                .state_gates = floats(step.inputs.at(0))},
               step);
  }

  void queue(const TreeLstmChildSum& node, const Step& step) {
    const TensorId input_gates = step.inputs.at(1);
    const bool is_vector = tensor(input_gates).role == TensorRole::kWeight;
    queue_cell({.cell = RecurrentCell::kTreeChildSum,
                .state = {},
                .h_offset = node.h_offset,
                .c_offset = node.c_offset,
                .forget_offset = node.forget_offset,
                .input_gates = is_vector ? vector(input_gates) : floats(input_gates),
                .shares_input_gates = is_vector,
                .state_gates = floats(step.inputs.at(0))},
               step);
  }

  // Outputs {h} or {h, a copy of it for a product}.
  void queue_cell(RecurrentCellArguments arguments, const Step& step) {
    const TensorId h = step.outputs.at(0);
    arguments.width = columns(h);
    arguments.state =
        state_rows(std::max({arguments.h_offset, arguments.c_offset, arguments.forget_offset}) + columns(h));
    arguments.h = floats(h);
    if (step.outputs.size() > 1) {
      arguments.rounded_h = address(step.outputs[1]);
      arguments.type = tensor(step.outputs[1]).type;
    }
    arguments.overlaps_previous = executor_.settings_.overlaps_kernels;
    launch_recurrent_cell(arguments, stream_);
  }

  void queue(const AttendStates& attend, const Step& step) {
    const TensorId query = step.inputs.at(0), h = step.inputs.at(1);
    launch_state_attention(
        {.state = state_rows(std::size_t{std::max(attend.key_offset, attend.value_offset)} + columns(query)),
         .key_offset = attend.key_offset,
         .value_offset = attend.value_offset,
         .query = floats(query),
         .beside = floats(h),
         .beside_width = columns(h),
         .is_context_first = true,
         .both = floats(step.outputs.at(0)),
         .width = columns(query),
         .overlaps_previous = executor_.settings_.overlaps_kernels},
        stream_);
  }

  void queue(const AdditiveAttention& attend, const Step& step) {
    const TensorId query = step.inputs.at(0), x = step.inputs.at(1);
    launch_state_attention(
        {.state = state_rows(std::size_t{std::max(attend.key_offset, attend.value_offset)} + columns(query)),
         .key_offset = attend.key_offset,
         .value_offset = attend.value_offset,
         .query = floats(query),
         .score_weight = vector(step.inputs.at(2)),
         .beside = floats(x),
         .beside_width = columns(x),
         .is_context_first = false,
         .both = floats(step.outputs.at(0)),
         .width = columns(query),
         .overlaps_previous = executor_.settings_.overlaps_kernels},
        stream_);
  }

  void queue(const ShortConvolution& convolution, const Step& step) {
    enter(convolution.layer + convolution.num_layers - 1);
    const TensorId bcx = step.inputs.at(0), y = step.outputs.at(0);
    const DeviceWeight& taps = weight(step.inputs.at(1));
    launch_short_convolution({.bcx = address(bcx),
                              .bcx_stride = columns(bcx),
                              .weight = vector(step.inputs[1]),
                              .num_taps = taps.columns / columns(y),
                              .width = columns(y),
                              .places = batch_.input.places,
                              .previous_pages = batch_.input.previous_pages,
                              .num_tokens = rows(bcx),
                              .pool = memory_.pool,
                              .layout = memory_.layout,
                              .layer = convolution.layer,
                              .num_layers = convolution.num_layers,
                              .y = address(y),
                              .y_stride = columns(y),
                              .overlaps_previous = executor_.settings_.overlaps_kernels},
                             stream_);
  }

  // Inputs of a fused product, as FusedInput lists them.
  FewTokenInput few_tokens(const FusedInput& input, const Step& step) const {
    const TensorId a = step.inputs.at(0);
    const DeviceWeight& matrix = weight(step.inputs.at(1));
    FewTokenInput few{.a = address(a),
                      .a_stride = columns(a),
                      .weight = matrix.data,
                      .weight_stride = matrix.columns,
                      .epsilon = input.epsilon,
                      .type = matrix.type,
                      .num_tokens = rows(a),
                      .num_outputs = matrix.rows,
                      .depth = matrix.columns,
                      .workspace = memory_.few_token_workspace,
                      .overlaps_previous = executor_.settings_.overlaps_kernels};
    if (input.has_squares) few.squares = floats(step.inputs.at(2));
    if (input.has_bias) few.bias = vector(step.inputs.at(input.has_squares ? 3 : 2));
    return few;
  }

  void queue(const FusedQkvStep& qkv, const Step& step) {
    enter(qkv.layer);
    const TensorId queries = step.outputs.at(0);
    launch_qkv_gemm({.input = few_tokens(qkv.input, step),
                     .queries = address(queries),
                     .query_stride = columns(queries),
                     .places = batch_.input.places,
                     .num_heads = executor_.settings_.num_heads,
                     .cosines_sines = qkv.rotates ? memory_.cosines_sines : nullptr,
                     .pool = memory_.pool,
                     .layout = memory_.layout,
                     .layer = qkv.layer},
                    stream_);
  }

  void queue(const FusedResidualStep& residual, const Step& step) {
    const TensorId x = step.outputs.at(0);
    const TensorId next_a = step.outputs.at(1);
    launch_residual_gemm({.input = few_tokens(residual.input, step),
                          .x = floats(x),
                          .x_stride = columns(x),
                          .norm_weight = vector(step.inputs.back()),
                          .next_a = address(next_a),
                          .next_a_stride = columns(next_a),
                          .next_squares = floats(step.outputs.at(2))},
                         stream_);
  }

  void queue(const FusedGatedStep& gated, const Step& step) {
    const TensorId h = step.outputs.at(0);
    launch_gated_gemm({.input = few_tokens(gated.input, step), .h = address(h), .h_stride = columns(h)},
                      stream_);
  }

  ProgramExecutor& executor_;
  const ExecutorMemory& memory_;
  const BoundProgram& bound_;
  const BatchOnDevice& batch_;
  StreamHandle stream_;
  const ExecutorHooks& hooks_;
  std::uint32_t layer_ = UINT32_MAX;
};

void ProgramExecutor::queue(const BoundProgram& program, const BatchOnDevice& batch, StreamHandle stream,
                            const ExecutorHooks& hooks) {
  Queueing(*this, program, batch, stream, hooks).run();
}

}  // namespace troupe::cuda
