// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/program_runner.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cpu/kernels/attention/self_attention.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/cpu/program_execution.hpp"
#include "gpu/program/batch_check.hpp"
#include "gpu/program/early_gather.hpp"
#include "gpu/program/planner.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxBoundPrograms = 512;

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

}  // namespace

std::uint64_t rounded_rows_bytes(std::span<const Program> largest, Activations activations) {
  std::uint64_t most = 0;
  if (activations == Activations::kComputed) return most;
  for (const Program& program : largest) {
    for (const Operator& op : program.operators) {
      if (!std::holds_alternative<Matmul>(op.kind) && !std::holds_alternative<ExpertMatmul>(op.kind))
        continue;
      const TensorSpec& a = program.tensors[op.inputs.at(0)];
      most = std::max<std::uint64_t>(most, q8_rows_bytes(rows_of(a, program.shape), a.columns));
    }
  }
  return most;
}

ProgramRunner::ProgramRunner(ProgramRunnerSettings settings, std::shared_ptr<const CpuWeights> weights,
                             RotaryTables rotary, std::span<const Program> largest, ThreadPool& threads)
    : settings_(std::move(settings)),
      weights_(std::move(weights)),
      rotary_(std::move(rotary)),
      threads_(threads),
      arena_(largest),
      kv_pool_(kv_pool_bytes(settings_.kv_layout)),
      copier_(settings_.kv_layout, settings_.description.num_pages, kv_pool_.get(), settings_.host_pages),
      rounded_rows_(rounded_rows_bytes(largest, settings_.activations)),
      state_(settings_.description.num_slots * settings_.row_width * sizeof(float)),
      zeros_(settings_.row_width),
      last_tokens_(settings_.description.num_slots, -1),
      recent_tokens_(settings_.description.num_slots) {
  const DeviceDescription& limits = settings_.description;
  if (attends_to_wholes(limits.cells.front())) {
    scratch_bytes_ = self_attention_scratch_bytes(limits.context_length, settings_.kv_layout.head_dim);
    scratch_ = PageMemory(threads.num_threads() * scratch_bytes_);
  }
  if (settings_.poison_memory) {
    for (PageMemory* memory : {&kv_pool_, &scratch_, &rounded_rows_, &state_})
      if (memory->size_bytes() > 0) std::memset(memory->get(), 0xFF, memory->size_bytes());
    arena_.poison();
  }
}

ProgramRunner::~ProgramRunner() = default;

BatchResult ProgramRunner::run(const std::shared_ptr<const Program>& program, const Batch& batch,
                               const BatchCopies* copies, const std::atomic<bool>& stop) {
  check_batch(program.get(), batch, settings_.description);
  BatchResult result;
  result.batch_id = batch.id;
  if (!batch.slices.empty()) {
    prepare(batch);
    const BoundProgram& bound = bind(program);
    arena_.begin_batch(bound.used_bytes);
    Execution execution(*this, bound, batch, copies);
    std::size_t num_done = 0;
    const auto& state = bound.program.state;
    for (const Operator& op : bound.program.operators) {
      if (stop.load(std::memory_order_relaxed)) refuse("the device was stopped");
      execution.run(op);
      if (state && ++num_done == state->num_operators) result.states = execution.states();
    }
    finish(batch, result);
  }
  if (copies != nullptr) result.failed_loads = copies->wait_for_all();
  // Only now: damage shows when a page's last layer has come.
  const std::vector<bool> is_void = copier_.find_void_slices(batch);
  for (std::size_t i = 0; i < is_void.size(); ++i)
    if (is_void[i]) result.tokens[i] = kVoidContext;
  return result;
}

void ProgramRunner::void_slots(const Batch& batch) {
  for (const auto& slice : batch.slices) {
    if (slice.sample && slice.slot < last_tokens_.size()) last_tokens_[slice.slot] = -1;
  }
}

// Everything that follows from the batch alone and serves all layers.
void ProgramRunner::prepare(const Batch& batch) {
  token_ids_ = batch.token_ids;
  vectors_.clear();
  output_rows_.clear();
  sample_rows_.clear();
  logprobs_.clear();
  masks_ = {};
  switch (cell_of(batch).state) {
    case StateKind::kPages: return prepare_pages(batch);
    case StateKind::kRows: return prepare_nodes(batch);
    case StateKind::kNone: return prepare_texts(batch);
  }
}

void ProgramRunner::prepare_pages(const Batch& batch) {
  std::uint32_t row = 0;
  for (const auto& slice : batch.slices) {
    if (slice.input_from_slot) token_ids_[row] = last_tokens_[slice.slot];
    row += slice.num_tokens;
    add_output_row(slice, row - 1);
  }
  prepare_logprobs();
  place_tokens(batch.slices, batch.page_table, places_);
  positions_.clear();
  types_.clear();
  std::uint32_t token = 0;
  for (const auto& slice : batch.slices)
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i)
      positions_.push_back(places_[token++].position - slice.source_tokens);
  if (reads_source(cell_of(batch))) return prepare_ranges(batch);
  attention_blocks_ = plan_attention(batch.slices, settings_.num_heads, settings_.kv_layout.num_kv_heads);
  split_blocks_ =
      split_blocks(attention_blocks_, settings_.num_heads, settings_.kv_layout, threads_.num_threads());
  partials_.resize(std::max(partials_.size(), split_blocks_.num_partial_floats));
}

// row: of the slice's last token.
void ProgramRunner::add_output_row(const SequenceSlice& slice, std::uint32_t row) {
  if (!slice.sample) return;
  output_rows_.push_back(row);
  sample_rows_.push_back(sample_row_of(slice));
}

void ProgramRunner::prepare_logprobs() {
  const bool has_logprobs =
      std::any_of(sample_rows_.begin(), sample_rows_.end(),
                  [](const SampleRow& sampled) { return sampled.parameters.wants_logprobs(); });
  if (has_logprobs) logprobs_.resize(sample_rows_.size());
}

// A slice is one token, and its input, if not known yet, was drawn into its first input row.
void ProgramRunner::prepare_nodes(const Batch& batch) {
  nodes_.clear();
  ranges_.clear();
  for (std::uint32_t row = 0; row < batch.slices.size(); ++row) {
    const SequenceSlice& slice = batch.slices[row];
    if (slice.input_from_slot) token_ids_[row] = last_tokens_[batch.input_rows[slice.first_input]];
    nodes_.push_back({.row = slice.slot, .first_input = slice.first_input, .num_inputs = slice.num_inputs});
    ranges_.push_back({.first_token = row, .num_tokens = 1});
    add_output_row(slice, row);
  }
  prepare_logprobs();
  vectors_.resize(batch.slices.size() * cell_of(batch).vector_size);
}

void ProgramRunner::prepare_ranges(const Batch& batch) {
  ranges_.clear();
  std::uint32_t token = 0;
  for (const auto& slice : batch.slices) {
    ranges_.push_back(
        {.first_token = token, .num_tokens = slice.num_tokens, .num_padding = slice.num_padding});
    token += slice.num_tokens;
  }
  longest_first_ = ranges_;
  std::stable_sort(longest_first_.begin(), longest_first_.end(),
                   [](const auto& a, const auto& b) { return a.num_tokens > b.num_tokens; });
}

void ProgramRunner::prepare_texts(const Batch& batch) {
  prepare_ranges(batch);
  positions_.clear();
  types_.clear();
  for (const auto& slice : batch.slices)
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i) {
      positions_.push_back(i);
      types_.push_back(slice.second_text > 0 && i >= slice.second_text ? 1 : 0);
    }
  vectors_.resize(batch.slices.size() * cell_of(batch).vector_size);
}

SampleRow ProgramRunner::sample_row_of(const SequenceSlice& slice) const {
  SampleRow row{.parameters = slice.sampling,
                .position = std::uint64_t{slice.context_length} + slice.num_tokens,
                .suppressed = slice.suppressed,
                .biased = slice.biased,
                .allowed = slice.allowed,
                .penalized = slice.penalized,
                .num_pending = slice.num_pending,
                .scored_token = slice.scored_token};
  for (std::uint32_t i = 0; i < row.num_pending; ++i)
    row.pending[i] = recent_tokens_[slice.slot][(row.position - 1 - i) % kRecentTokens];
  return row;
}

void ProgramRunner::take_masks(const Batch& batch) {
  if (batch.awaited_masks.empty()) return;
  std::vector<std::size_t> rows(batch.slices.size());  // of output
  std::size_t num_rows = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = batch.slices[i].sample ? num_rows++ : num_rows;
  masks_ = await_masks(batch, settings_.longest_mask_wait,
                       [&](std::size_t slice) { return token_ids_[output_rows_[rows[slice]]] >= 0; });
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (masks_.masks[i]) sample_rows_[rows[i]].allowed = *masks_.masks[i];
}

const ProgramRunner::BoundProgram& ProgramRunner::bind(const std::shared_ptr<const Program>& program) {
  if (const auto found = bound_.find(program.get()); found != bound_.end()) return *found->second;
  auto bound = std::make_unique<BoundProgram>();
  bound->asked = program;
  bound->program = gathered_early(*program);
  const std::vector<TensorSpec>& tensors = bound->program.tensors;
  bound->placements = arena_.place(bound->program);
  bound->used_bytes = arena_.used_bytes(bound->program, bound->placements);
  bound->matrices.resize(tensors.size());
  bound->vectors.resize(tensors.size());
  bound->tables.resize(tensors.size());
  for (TensorId id = 0; id < tensors.size(); ++id)
    if (tensors[id].role == TensorRole::kWeight) bound->find_weight(*weights_, id);
  if (bound_.size() >= kMaxBoundPrograms) bound_.clear();
  return *bound_.emplace(program.get(), std::move(bound)).first->second;
}

void ProgramRunner::finish(const Batch& batch, BatchResult& result) {
  result.tokens.assign(batch.slices.size(), -1);
  result.vectors = std::move(vectors_);
  result.mask_wait_nanoseconds = std::move(masks_.wait_nanoseconds);
  result.mask_sleep_nanoseconds = masks_.asleep.count();
  if (!logprobs_.empty()) result.logprobs.resize(batch.slices.size());
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const auto& slice = batch.slices[i];
    if (!slice.sample) continue;
    // A slot without a token passes its failure on instead of inventing one.
    const bool had_input = token_ids_[output_rows_[row]] >= 0;
    const bool has_mask = batch.awaited_masks.empty() || !batch.awaited_masks[i] || masks_.masks[i];
    const std::int32_t token = !had_input ? -1 : has_mask ? sampled_.at(row) : kNoMask;
    result.tokens[i] = token;
    if (slice.draws()) {
      last_tokens_[slice.slot] = token;
      recent_tokens_[slice.slot][sample_rows_[row].position % kRecentTokens] = token;
    }
    if (!logprobs_.empty()) result.logprobs[i] = std::move(logprobs_[row]);
    ++row;
  }
}

}  // namespace troupe
