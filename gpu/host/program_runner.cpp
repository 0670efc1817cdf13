// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/program_runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/batch_check.hpp"
#include "gpu/host/kernels/gated_activation.hpp"
#include "gpu/host/kernels/matmul.hpp"
#include "gpu/host/kernels/onednn_matmul.hpp"
#include "gpu/host/kernels/rms_norm.hpp"
#include "gpu/host/kernels/row_copy.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxBoundPrograms = 512;
// From so many rows up a bound oneDNN matrix is used instead of ours.
constexpr std::size_t kOnednnMinRows = 16;

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

}  // namespace

// A program with everything looked up that does not change from batch to batch.
struct ProgramRunner::BoundProgram {
  std::shared_ptr<const Program> program;  // keeps the key of the map alive
  std::vector<Placement> placements;       // by tensor
  std::vector<bool> used_chunks;
  // By tensor; at most one of them is set, for weights only.
  std::vector<const HostMatrix*> matrices;
  std::vector<const std::vector<float>*> vectors;
  std::vector<const HostTable*> tables;

  void find_weight(const HostWeights& weights, TensorId id) {
    const TensorSpec& tensor = program->tensors[id];
    matrices[id] = weights.find_matrix(tensor.name);
    vectors[id] = weights.find_vector(tensor.name);
    tables[id] = weights.find_table(tensor.name);
    const std::size_t elements = std::size_t{tensor.fixed_rows} * tensor.columns;
    const bool fits = matrices[id] != nullptr ? matrices[id]->packed.num_outputs() == tensor.fixed_rows &&
                                                    matrices[id]->packed.num_inputs() == tensor.columns
                      : vectors[id] != nullptr ? vectors[id]->size() == elements
                      : tables[id] != nullptr
                          ? tables[id]->rows.size() == elements * size_of(tables[id]->type)
                          : false;
    if (!fits) refuse("the program's weight \"" + tensor.name + "\" is not on this device");
  }
};

// One pass over a bound program: an operator's arguments are put together from
// its tensors and its tasks are given to the threads.
class ProgramRunner::Execution {
 public:
  Execution(ProgramRunner& runner, const BoundProgram& bound, const Batch& batch, const BatchCopies* copies)
      : runner_(runner), bound_(bound), program_(*bound.program), batch_(batch), copies_(copies) {}

  void run(const Operator& op) {
    std::visit([&](const auto& kind) { execute(kind, op); }, op.kind);
  }

 private:
  float* floats(TensorId id) const {
    const TensorSpec& tensor = program_.tensors[id];
    if (tensor.type != DataType::kF32) refuse("tensor \"" + tensor.name + "\" must be f32");
    return static_cast<float*>(address(id));
  }
  void* address(TensorId id) const { return runner_.arena_.address(bound_.placements[id]); }
  std::size_t columns(TensorId id) const { return program_.tensors[id].columns; }
  DataType type(TensorId id) const { return program_.tensors[id].type; }
  std::size_t rows(TensorId id) const {
    return program_.tensors[id].rows == RowCount::kOutputRows ? runner_.output_rows_.size()
                                                              : runner_.token_ids_.size();
  }
  const float* vector(TensorId id) const {
    if (bound_.vectors[id] == nullptr) {
      refuse("\"" + program_.tensors[id].name + "\" is not a vector");
    }
    return bound_.vectors[id]->data();
  }

  template <typename Arguments>
  void run_tasks(const Arguments& arguments, std::size_t num_tasks,
                 void (*run_task)(const Arguments&, std::size_t)) {
    runner_.threads_.run(num_tasks, [&](std::size_t task) { run_task(arguments, task); });
  }

  void execute(const Embed&, const Operator& op) {
    const HostTable* table = bound_.tables[op.inputs.at(0)];
    if (table == nullptr) refuse("embed needs a table");
    const TensorId x = op.outputs.at(0);
    const EmbedArguments arguments{.table = table->rows.data(),
                                   .table_type = table->type,
                                   .table_stride = columns(x),
                                   .vocabulary = program_.tensors[op.inputs[0]].fixed_rows,
                                   .token_ids = runner_.token_ids_,
                                   .x = floats(x),
                                   .x_stride = columns(x),
                                   .width = columns(x)};
    run_tasks(arguments, embed_num_tasks(arguments), embed_run_task);
  }

  void execute(const RmsNorm& norm, const Operator& op) {
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

  void execute(const Matmul&, const Operator& op) {
    const TensorId a = op.inputs.at(0);
    const TensorId c = op.outputs.at(0);
    const HostMatrix* weight = bound_.matrices[op.inputs.at(1)];
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
    const MatmulArguments arguments{.weight = &weight->packed,
                                    .a = address(a),
                                    .a_type = type(a),
                                    .a_stride = columns(a),
                                    .bias = bias,
                                    .c = floats(c),
                                    .c_stride = columns(c),
                                    .num_rows = rows(a),
                                    .num_threads = runner_.threads_.num_threads()};
    run_tasks(arguments, matmul_num_tasks(arguments), matmul_run_task);
  }

  // Before a layer's KV is read or written.
  void wait_for_kv(std::uint32_t layer) const {
    if (copies_ != nullptr) copies_->wait_for_layer(layer);
  }

  void execute(const RotaryAppendKv& rotary, const Operator& op) {
    wait_for_kv(rotary.layer);
    const TensorId qkv = op.inputs.at(0);
    const RotaryAppendKvArguments arguments{.qkv = floats(qkv),
                                            .qkv_stride = columns(qkv),
                                            .places = runner_.places_,
                                            .num_heads = runner_.settings_.num_heads,
                                            .table = runner_.rotary_.get(),
                                            .kv_pool = runner_.kv_pool_.get(),
                                            .layout = runner_.settings_.kv_layout,
                                            .layer = rotary.layer};
    run_tasks(arguments, rotary_append_kv_num_tasks(arguments), rotary_append_kv_run_task);
  }

  void execute(const PagedAttention& attention, const Operator& op) {
    wait_for_kv(attention.layer);
    const TensorId qkv = op.inputs.at(0);
    const TensorId attended = op.outputs.at(0);
    const auto& layout = runner_.settings_.kv_layout;
    const PagedAttentionArguments arguments{.blocks = runner_.attention_blocks_,
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
                                            .scale = 1.0F / std::sqrt(static_cast<float>(layout.head_dim))};
    run_tasks(arguments, paged_attention_num_tasks(arguments), paged_attention_run_task);
  }

  void execute(const GatedActivation&, const Operator& op) {
    const TensorId gate_up = op.inputs.at(0);
    const TensorId h = op.outputs.at(0);
    const GatedActivationArguments arguments{.gate_up = floats(gate_up),
                                             .gate_up_stride = columns(gate_up),
                                             .h = address(h),
                                             .h_type = type(h),
                                             .h_stride = columns(h),
                                             .num_rows = rows(gate_up),
                                             .width = columns(h)};
    run_tasks(arguments, gated_activation_num_tasks(arguments), gated_activation_run_task);
  }

  void execute(const GatherRows&, const Operator& op) {
    const TensorId x = op.inputs.at(0);
    const TensorId gathered = op.outputs.at(0);
    GatherRowsArguments arguments{.x = floats(x),
                                  .x_stride = columns(x),
                                  .rows = runner_.output_rows_,
                                  .gathered = floats(gathered),
                                  .gathered_stride = columns(gathered),
                                  .width = columns(x)};
    if (op.inputs.size() > 1) {
      arguments.residual = floats(op.inputs[1]);
      arguments.residual_stride = columns(op.inputs[1]);
    }
    run_tasks(arguments, gather_rows_num_tasks(arguments), gather_rows_run_task);
  }

  void execute(const Sample&, const Operator& op) {
    const TensorId logits = op.inputs.at(0);
    const std::size_t num_rows = runner_.output_rows_.size();
    if (runner_.settings_.on_logits) {
      runner_.settings_.on_logits(batch_, {floats(logits), num_rows * columns(logits)});
    }
    runner_.sampled_.resize(num_rows);
    const SampleArguments arguments{.logits = floats(logits),
                                    .logits_stride = columns(logits),
                                    .vocabulary = columns(logits),
                                    .rows = runner_.sample_rows_,
                                    .token_ids = runner_.sampled_.data(),
                                    .logprobs = runner_.logprobs_.data()};
    run_tasks(arguments, sample_num_tasks(arguments), sample_run_task);
  }

  ProgramRunner& runner_;
  const BoundProgram& bound_;
  const Program& program_;
  const Batch& batch_;
  const BatchCopies* copies_;
};

ProgramRunner::ProgramRunner(ProgramRunnerSettings settings, std::shared_ptr<const HostWeights> weights,
                             std::shared_ptr<const RotaryTable> rotary, const Program& largest,
                             ThreadPool& threads)
    : settings_(std::move(settings)),
      weights_(std::move(weights)),
      rotary_(std::move(rotary)),
      threads_(threads),
      arena_(largest),
      kv_pool_(kv_pool_bytes(settings_.kv_layout)),
      mover_(settings_.kv_layout, kv_pool_.get(), settings_.host_pages),
      last_tokens_(settings_.description.num_slots, -1),
      recent_tokens_(settings_.description.num_slots) {
  if (settings_.poison_memory) {
    std::memset(kv_pool_.get(), 0xFF, kv_pool_.size_bytes());
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
    Execution execution(*this, bound, batch, copies);
    for (const Operator& op : program->operators) {
      if (stop.load(std::memory_order_relaxed)) refuse("the device was stopped");
      execution.run(op);
    }
    arena_.finish_batch(bound.used_chunks);
    finish(batch, result);
  }
  if (copies != nullptr) result.failed_loads = copies->wait_for_all();
  // Only now: damage shows when a page's last layer has come.
  const std::vector<bool> is_void = mover_.find_void_slices(batch);
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
  output_rows_.clear();
  sample_rows_.clear();
  logprobs_.clear();
  std::uint32_t row = 0;
  for (const auto& slice : batch.slices) {
    if (slice.input_from_slot) token_ids_[row] = last_tokens_[slice.slot];
    row += slice.num_tokens;
    if (slice.sample) {
      output_rows_.push_back(row - 1);
      sample_rows_.push_back(sample_row_of(slice));
    }
  }
  const bool has_logprobs =
      std::any_of(sample_rows_.begin(), sample_rows_.end(),
                  [](const SampleRow& sampled) { return sampled.parameters.wants_logprobs(); });
  if (has_logprobs) logprobs_.resize(sample_rows_.size());
  place_tokens(batch.slices, batch.page_table, places_);
  attention_blocks_ = plan_attention(batch.slices, settings_.num_heads, settings_.kv_layout.num_kv_heads);
}

SampleRow ProgramRunner::sample_row_of(const SequenceSlice& slice) const {
  SampleRow row{.parameters = slice.sampling,
                .position = std::uint64_t{slice.context_length} + slice.num_tokens,
                .suppressed = slice.suppressed,
                .penalized = slice.penalized,
                .num_pending = slice.num_pending,
                .scored_token = slice.scored_token};
  for (std::uint32_t i = 0; i < row.num_pending; ++i)
    row.pending[i] = recent_tokens_[slice.slot][(row.position - 1 - i) % kRecentTokens];
  return row;
}

const ProgramRunner::BoundProgram& ProgramRunner::bind(const std::shared_ptr<const Program>& program) {
  if (const auto found = bound_.find(program.get()); found != bound_.end()) return *found->second;
  auto bound = std::make_unique<BoundProgram>();
  const std::size_t num_tensors = program->tensors.size();
  bound->program = program;
  bound->placements = arena_.place(*program);
  bound->used_chunks.resize(arena_.num_chunks());
  bound->matrices.resize(num_tensors);
  bound->vectors.resize(num_tensors);
  bound->tables.resize(num_tensors);
  for (TensorId id = 0; id < num_tensors; ++id) {
    if (program->tensors[id].role == TensorRole::kWeight) {
      bound->find_weight(*weights_, id);
    } else {
      bound->used_chunks[bound->placements[id].chunk] = true;
    }
  }
  if (bound_.size() >= kMaxBoundPrograms) bound_.clear();
  return *bound_.emplace(program.get(), std::move(bound)).first->second;
}

void ProgramRunner::finish(const Batch& batch, BatchResult& result) {
  result.tokens.assign(batch.slices.size(), -1);
  if (!logprobs_.empty()) result.logprobs.resize(batch.slices.size());
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const auto& slice = batch.slices[i];
    if (!slice.sample) continue;
    // A slot without a token passes its failure on instead of inventing one.
    const bool had_input = token_ids_[output_rows_[row]] >= 0;
    const std::int32_t token = had_input ? sampled_.at(row) : -1;
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
