// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/cuda_model.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <stdexcept>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/gemm/gemm_setup.hpp"
#include "gpu/cuda/in_flight_depth.hpp"
#include "gpu/cuda/kernels/attention/paged_attention.hpp"
#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/lowering.hpp"
#include "gpu/cuda/program_executor.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/cuda/runtime/decode_graphs.hpp"
#include "gpu/model/model_shapes.hpp"

namespace troupe::cuda {
namespace {

// Left to the driver and to others: contexts grow when kernels are loaded.
constexpr std::uint64_t kMarginBytes = 512ULL << 20;
// Partial results of attention of so long a context are held for all sequences at once; those
// of longer ones, and of large prefills behind long ones, are made in rounds.
constexpr std::uint32_t kPartialContext = 16384;
// Ids that may not be drawn: a request's own, of which HTTP's limit is 64 at first,
// and the model's ends.
constexpr std::uint32_t kSuppressedPerSlot = 128;
// Tokens that penalties are for, on average of all slots: a text of 100,000
// tokens has fewer that differ. What does not fit waits for the next batch.
constexpr std::uint32_t kPenalizedPerSlot = 16384;
// Rows that nodes of a batch read, all together: 4 MiB of numbers, those of four of the largest graphs.
constexpr std::uint32_t kMostInputRows = 1U << 20;

template <typename Integer>
Integer divide_up(Integer count, Integer size) {
  return (count + size - 1) / size;
}

// Unless another is asked for, the type that the weights have; f32 of vectors, whose digits
// users compare, and of states, in which rounding would add up from node to node.
DataType choose_type(const BackendSettings& settings, DataType weight_type, const CellType& cell) {
  const bool is_f32 = cell.result == ResultKind::kVector || cell.state == StateKind::kRows;
  const DataType usual = is_f32 ? DataType::kF32 : weight_type;
  const DataType type = settings.compute_type.value_or(usual);
  if (type == DataType::kI32) throw std::runtime_error("a GPU does not compute in i32");
  return type;
}

// Keys behind the window of every layer are in no item; behind that of some layers, they are read and masked.
std::uint32_t window_of_all_layers(const CudaModelPlan& plan) {
  std::optional<std::uint32_t> window;
  for (const Operator& op : plan.network->build_program(0, {1, 1}, plan.compute_type).operators) {
    const auto* attention = std::get_if<PagedAttention>(&op.kind);
    if (attention == nullptr) continue;
    if (window.value_or(attention->window) != attention->window) return 0;
    window = attention->window;
  }
  return window.value_or(0);
}

// Contexts are cut alike whatever the model's longest is; max_partials is set by bound_batches().
AttentionLimits attention_limits(const CudaModelPlan& plan) {
  const ModelShapes shapes = plan.network->shapes();
  return {.group_size = shapes.num_heads / shapes.num_kv_heads,
          .window = window_of_all_layers(plan),
          .has_tiles = can_tile_attention(plan.layout())};
}

// All programs of its cell that draws hand out the same state, or none does.
std::uint32_t handed_width_of(const CudaModelPlan& plan) {
  if (!plan.has_pages()) return 0;
  const Program program = plan.network->build_program(0, {1, 1}, plan.compute_type);
  return program.state ? program.tensors[program.state->tensor].columns : 0;
}

// Enough for any sequence alone.
std::uint32_t max_penalized_tokens(const CudaModelPlan& plan, std::uint32_t num_draws) {
  const std::uint32_t of_a_sequence = std::min(plan.context_length, plan.network->shapes().vocabulary_size);
  return std::max(of_a_sequence, num_draws * std::min(kPenalizedPerSlot, of_a_sequence));
}

// The most that any batch of whole sequences can need: each token may be one.
void bound_sequences(CudaModelPlan& plan) {
  const std::uint32_t tokens = plan.largest.max_tokens;
  plan.attention.max_partials = 0;
  plan.capacity = {.tokens = tokens, .slices = tokens, .tiles = tokens, .token_types = tokens};
  plan.input_bytes = plan.pinned_input_bytes = BatchInput::size_bytes(plan.capacity);
}

// With room for so many items of few rows, whatever their classes.
BatchCapacity with_few_items(BatchCapacity capacity, std::uint32_t num_items) {
  for (std::size_t i = 0; i < kTileClass; ++i) capacity.items[i] = 3;  // aligning parts takes less
  capacity.items[kTileClass - 1] = num_items;
  return capacity;
}

// As graphs want it, whose parts are of powers of two.
BatchCapacity rounded_up(BatchCapacity capacity) {
  for (std::uint32_t* count :
       {&capacity.pages, &capacity.suppressed, &capacity.penalized, &capacity.biased, &capacity.mask_words,
        &capacity.merges, &capacity.input_rows, &capacity.state_rows})
    *count = std::bit_ceil(*count);
  for (std::uint32_t& count : capacity.items) count = std::bit_ceil(count);
  return capacity;
}

// The most that a batch of nodes can need, but that a part of the graphs that somebody builds reads
// more rows: usual ones read each row of the pool once or twice.
void bound_nodes(CudaModelPlan& plan) {
  const auto cells = plan.network->cells();
  const bool gives_tokens = std::any_of(
      cells.begin(), cells.end(), [](const CellType& cell) { return cell.result == ResultKind::kToken; });
  const std::uint32_t tokens = plan.largest.max_tokens;
  const std::uint32_t draws = gives_tokens ? plan.largest.max_output_rows : 0;
  plan.attention.max_partials = 0;
  plan.capacity = {
      .tokens = tokens,
      .output_rows = draws,
      .suppressed = draws * kSuppressedPerSlot,
      .penalized = max_penalized_tokens(plan, draws),
      .biased = draws * static_cast<std::uint32_t>(kMaxBiases),
      .mask_words = draws * static_cast<std::uint32_t>(mask_words(plan.network->shapes().vocabulary_size)),
      .nodes = tokens,
      .input_rows = plan.settings.num_slots + tokens};
  plan.pinned_input_bytes = BatchInput::size_bytes(rounded_up(plan.capacity));
  plan.capacity.input_rows = std::max(plan.capacity.input_rows, kMostInputRows);
  plan.input_bytes = std::max(BatchInput::size_bytes(plan.capacity), plan.pinned_input_bytes);
}

// The most that any batch within the limits can need.
void bound_batches(CudaModelPlan& plan) {
  AttentionLimits& limits = plan.attention;
  const std::uint32_t tokens = plan.largest.max_tokens;
  const std::uint32_t slots = plan.settings.num_slots;
  const auto page_tokens = static_cast<std::uint32_t>(kKvPageTokens);
  // A sequence with holes has a slice for each of them, of whole pages but for the rest of one
  // that an earlier batch had begun, and one more.
  const std::uint32_t slices = slots + 2 * (tokens / page_tokens) + 1;
  const std::uint32_t few_rows = kAttentionClasses[kTileClass - 1];
  const std::uint32_t tile_rows = kAttentionClasses[kTileClass];
  const auto splits_of = [&](std::uint32_t context, std::uint32_t split_tokens) {
    return num_splits_of(context, split_tokens, limits.even_splits);
  };
  const std::uint32_t splits = splits_of(plan.context_length, limits.split_tokens);
  const std::uint32_t usual_splits = std::min(splits, splits_of(kPartialContext, limits.split_tokens));
  const std::uint32_t tile_splits = splits_of(plan.context_length, limits.tile_split_tokens);
  // With tiles, a slice of few rows has at most few_rows of them; without, all are few.
  const std::uint32_t rows = tokens * limits.group_size;
  const std::uint32_t rows_of_few = limits.has_tiles ? std::min(rows, slices * few_rows) : rows;
  const std::uint32_t rows_of_tiles = limits.has_tiles ? rows : 0;
  const std::uint32_t few_items = slices + rows_of_few / few_rows;
  const std::uint32_t tile_items = limits.has_tiles ? slices + rows_of_tiles / tile_rows : 0;
  // Of any batch, of the decode step of all sequences, and of the rows of one item.
  const std::uint64_t most = (splits > 1 ? std::uint64_t{rows_of_few} * splits : 0) +
                             (tile_splits > 1 ? std::uint64_t{rows_of_tiles} * tile_splits : 0);
  const std::uint64_t of_decodes =
      std::uint64_t{slots} * limits.group_size * splits_of(kPartialContext, limits.split_tokens);
  const std::uint64_t of_an_item = std::max(few_rows * splits, tile_rows * tile_splits);
  limits.max_partials = static_cast<std::uint32_t>(std::min(most, std::max(of_decodes, of_an_item)));
  plan.capacity = {
      .tokens = tokens + page_tokens,
      .output_rows = slots + page_tokens,
      .pages = slots * divide_up(plan.context_length, page_tokens),
      .suppressed = slots * kSuppressedPerSlot,
      .penalized = max_penalized_tokens(plan, slots),
      .biased = slots * static_cast<std::uint32_t>(kMaxBiases),
      .mask_words = slots * static_cast<std::uint32_t>(mask_words(plan.network->shapes().vocabulary_size)),
      .merges = few_items + tile_items,
      .state_rows = plan.handed_width > 0 ? std::bit_ceil(plan.largest.max_output_rows) : 0};
  plan.capacity.items[kTileClass] = tile_items * tile_splits;
  // Rows are in one class only. Of the decode step of all sequences, and of any batch.
  const std::uint32_t decode_items = slots * divide_up(limits.group_size, few_rows) * splits;
  const std::uint32_t usual_items = std::max(decode_items, few_items * usual_splits);
  plan.pinned_input_bytes = BatchInput::size_bytes(rounded_up(with_few_items(plan.capacity, usual_items)));
  plan.capacity = with_few_items(plan.capacity, few_items * splits);
  plan.input_bytes = std::max(BatchInput::size_bytes(plan.capacity), plan.pinned_input_bytes);
}

std::size_t arena_bytes(const CudaModelPlan& plan) {
  const auto bytes_of = [&](ProgramShape shape) {
    std::uint64_t most = 0;
    for (CellId cell = 0; cell < plan.network->cells().size(); ++cell) {
      const Program program = plan.network->build_program(cell, shape, plan.compute_type);
      most = std::max(
          most, place_temporaries(lower(program, plan.compute_type, plan.may_fuse()), shape).size_bytes);
    }
    return most;
  };
  const std::uint32_t few = std::min(kMostFewTokens, plan.largest.max_tokens);
  return std::max(bytes_of(plan.largest), bytes_of({few, std::min(few, plan.largest.max_output_rows)}));
}

std::uint64_t workspace_bytes(const CudaModelPlan& plan) {
  return kGemmWorkspaceBytes + kFewTokenWorkspaceBytes +
         attention_partial_floats(plan.layout(), plan.attention.max_partials) * sizeof(float) +
         plan.input_bytes + plan.capacity.output_rows * (sizeof(std::int32_t) + sizeof(RowLogprobs)) +
         plan.vector_bytes() + plan.handed_bytes() + sizeof(std::uint64_t) +  // when a batch began
         plan.network->shapes().row_width * sizeof(float);                    // the row of padding
}

std::uint32_t most_useful_pages(const CudaModelPlan& plan) {
  const std::uint64_t of_a_sequence =
      divide_up(plan.context_length, static_cast<std::uint32_t>(kKvPageTokens));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(2 * of_a_sequence * plan.settings.num_slots,
                                                            std::numeric_limits<std::uint32_t>::max() - 2));
}

MemoryPlan divide_memory(const CudaModelPlan& plan) {
  const BackendSettings& settings = plan.settings;
  const ModelShapes shapes = plan.network->shapes();
  const std::uint64_t page_bytes =
      plan.has_pages() ? kv_pool_bytes(kv_layout_of(shapes, plan.compute_type, 1)) : 0;
  const bool keeps_state = plan.cell.state != StateKind::kNone;
  const std::uint64_t in_reach = plan.gpu.free_bytes - std::min(plan.gpu.free_bytes, kMarginBytes);
  return plan_memory(
      {.weight_bytes = WeightLayout(*plan.network, plan.compute_type).size_bytes(),
       .table_bytes =
           plan.has_pages() ? std::uint64_t{plan.context_length} * shapes.head_dim * sizeof(float) : 0,
       .arena_bytes = plan.arena_bytes,
       .workspace_bytes = workspace_bytes(plan) + page_bytes,  // and the page of padding
       .graph_bytes = settings.uses_graphs && keeps_state ? kGraphBytes : 0,
       .page_bytes = page_bytes,
       // The last token and the recent ones, and a row of recurrent cells.
       .slot_bytes = keeps_state ? (1 + kRecentTokens) * sizeof(std::int32_t) +
                                       std::uint64_t{shapes.row_width} * sizeof(float)
                                 : 0,
       .page_size = kKvPageTokens,
       .num_slots = settings.num_slots,
       .context_length = plan.context_length,
       .max_pages = settings.max_pages != 0 ? settings.max_pages : most_useful_pages(plan),
       .budget_bytes =
           settings.memory_budget_bytes != 0 ? std::min(settings.memory_budget_bytes, in_reach) : in_reach});
}

// The first cell stands for all: others of a recurrent network have about as many kernels.
std::uint32_t depth_of(const CudaModelPlan& plan) {
  const Program decode = plan.network->build_program(0, {1, 1}, plan.compute_type);
  return in_flight_depth(
      least_time({.weight_bytes = WeightLayout(*plan.network, plan.compute_type).size_bytes(),
                  .bytes_per_second = plan.gpu.bytes_per_second,
                  .num_kernels = num_kernels(lower(decode, plan.compute_type, plan.may_fuse()))}));
}

DeviceMemory copied_rotary_table(const CudaModelPlan& plan) {
  if (!plan.has_pages()) return DeviceMemory(0);
  const RotaryTable table(rotary_parameters(plan.network->shapes(), plan.context_length));
  const std::size_t size = table.max_positions() * table.rotary_dim() * sizeof(float);
  DeviceMemory memory(size);
  CUDA_CHECK(cudaMemcpy(memory.get(), table.row(0), size, cudaMemcpyHostToDevice));
  return memory;
}

}  // namespace

std::uint32_t CudaModelPlan::rotary_dim() const {
  return static_cast<std::uint32_t>(rotary_parameters(network->shapes(), context_length).rotary_dim);
}

KvLayout CudaModelPlan::layout() const {
  return kv_layout_of(network->shapes(), compute_type, has_pages() ? memory.num_pages + 1 : 0);
}

std::size_t CudaModelPlan::state_bytes() const {
  return (std::size_t{settings.num_slots} + 1) * network->shapes().row_width * sizeof(float);
}

std::size_t CudaModelPlan::vector_bytes() const {
  return std::size_t{std::max(capacity.slices, capacity.nodes)} * cell.vector_size * sizeof(float);
}

std::size_t CudaModelPlan::handed_bytes() const {
  return std::size_t{capacity.state_rows} * handed_width * sizeof(float);
}

CudaModelPlan plan_cuda_model(const BackendSettings& settings) {
  CudaModelPlan plan{.settings = settings};
  if (settings.num_slots == 0 || settings.max_batch_tokens == 0)
    throw std::runtime_error("num_slots and max_batch_tokens must be at least 1");
  plan.network = load_network(settings.model_dir);
  plan.cell = plan.network->cells().front();
  if (plan.network->source()) throw std::runtime_error(settings.model_dir + ": " + kNoSources);
  const ModelShapes shapes = plan.network->shapes();
  if (plan.has_rows()) plan.settings.num_slots *= std::max(shapes.rows_a_sequence, 1U);
  if (plan.has_pages() && plan.rotary_dim() % 4 != 0)
    throw std::runtime_error(settings.model_dir + ": " + kNoSuchRotation);
  plan.store = std::make_shared<const WeightStore>(settings.model_dir);
  check_weights(*plan.store, *plan.network);
  const auto embedding = find_sources(*plan.store, plan.network->weights().front());
  plan.compute_type = choose_type(settings, embedding.front().natural_type(), plan.cell);
  plan.context_length = plan.network->shapes().context_length;
  plan.handed_width = handed_width_of(plan);
  // Nothing is kept between batches, so a sequence is in one as a whole.
  if (plan.cell.state == StateKind::kNone)
    plan.context_length = std::min(plan.context_length, settings.max_batch_tokens);
  plan.largest = {settings.max_batch_tokens, std::min(plan.settings.num_slots, settings.max_batch_tokens)};
  plan.gpu = use_gpu(static_cast<int>(settings.ordinal));
  if (plan.has_pages()) {
    plan.attention = attention_limits(plan);
    bound_batches(plan);
  } else if (plan.has_rows()) {
    bound_nodes(plan);
  } else {
    bound_sequences(plan);
  }
  plan.arena_bytes = arena_bytes(plan);
  if (settings.max_in_flight == 0) plan.settings.max_in_flight = depth_of(plan);
  plan.memory = divide_memory(plan);
  return plan;
}

CudaModel::CudaModel(const CudaModelPlan& cuda_plan, std::string& news)
    : plan(cuda_plan),
      weights(*plan.store, WeightLayout(*plan.network, plan.compute_type)),
      cosines_sines(copied_rotary_table(plan)),
      gemms(choose_gemms(plan, weights, news)) {
  plan.store = nullptr;
}

}  // namespace troupe::cuda
