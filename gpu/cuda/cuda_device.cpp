// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/cuda_device.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gpu/cuda/gemm/gemm_candidates.hpp"
#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/kernels/signal.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/program/batch_check.hpp"

namespace troupe::cuda {
namespace {

// Batches beyond those in flight that have memory of their own, so that the next
// one can be filled while the oldest is reported.
constexpr std::uint32_t kSpareBatches = 2;

DeviceDescription describe(const CudaModelPlan& plan, const CudaDeviceOptions& options) {
  DeviceDescription description;
  description.name = to_string(plan.gpu) + ", " + std::string(name_of(plan.compute_type));
  description.page_size = kKvPageTokens;
  description.num_pages = plan.memory.num_pages;
  description.num_host_pages = plan.has_pages() && options.host_pages ? options.host_pages->num_pages() : 0;
  description.num_slots = plan.settings.num_slots;
  description.max_batch_tokens = plan.largest.max_tokens;
  description.context_length = plan.context_length;
  description.vocabulary_size = plan.network->shapes().vocabulary_size;
  description.max_penalized_tokens = plan.capacity.penalized;
  description.cells = plan.network->cells();
  description.hands_out_states = plan.handed_width > 0;
  return description;
}

// A power of two, so that batches of nearly the same kind share a graph.
std::uint32_t rounded_up(std::uint32_t count) { return count == 0 ? 0 : std::bit_ceil(count); }

BatchCapacity graph_capacity(const BatchCapacity& exact, const ProgramShape& shape) {
  BatchCapacity capacity{.tokens = shape.max_tokens,
                         .output_rows = std::min(shape.max_tokens, shape.max_output_rows),
                         .pages = rounded_up(exact.pages),
                         .suppressed = rounded_up(exact.suppressed),
                         .penalized = rounded_up(exact.penalized),
                         .biased = rounded_up(exact.biased),
                         .mask_words = rounded_up(exact.mask_words),
                         .merges = rounded_up(exact.merges),
                         .nodes = exact.nodes == 0 ? 0 : shape.max_tokens,
                         .input_rows = rounded_up(exact.input_rows)};
  for (std::size_t i = 0; i < exact.items.size(); ++i) capacity.items[i] = rounded_up(exact.items[i]);
  // Two kinds of graphs: with states of all rows, or of none.
  capacity.state_rows = exact.state_rows == 0 ? 0 : capacity.output_rows;
  return capacity;
}

bool gives_logprobs(const SequenceSlice& slice) { return slice.sample && slice.sampling.wants_logprobs(); }
std::uint32_t num_logprobs(const Batch& batch) {
  return static_cast<std::uint32_t>(std::count_if(batch.slices.begin(), batch.slices.end(), gives_logprobs));
}

// Bytes of the states that a batch hands out.
std::size_t handed_bytes(const Batch& batch, const CudaModelPlan& plan) {
  return plan.handed_width > 0 ? std::size_t{num_states(batch)} * plan.handed_width * sizeof(float) : 0;
}

// Bytes of a batch's vectors; 0 where it gives tokens.
std::size_t vector_bytes(const Batch& batch, const CellType& cell) {
  return batch.slices.size() * cell.vector_size * sizeof(float);
}

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<const CudaModel> model, const CudaDeviceOptions& options)
    : model_(std::move(model)),
      options_(options),
      description_(describe(model_->plan, options)),
      ring_size_(model_->plan.settings.max_in_flight + kSpareBatches),
      compute_(Stream::Priority::kHigh),
      pool_(kv_pool_bytes(model_->plan.layout())),
      arena_(model_->plan.arena_bytes),
      partials_(attention_partial_floats(model_->plan.layout(), model_->plan.attention.max_partials) *
                sizeof(float)),
      gemm_workspace_(kGemmWorkspaceBytes),
      few_token_workspace_(kFewTokenWorkspaceBytes),
      input_(model_->plan.input_bytes),
      sampled_(model_->plan.capacity.output_rows * sizeof(std::int32_t)),
      logprobs_(model_->plan.capacity.output_rows * sizeof(RowLogprobs)),
      vectors_(model_->plan.vector_bytes()),
      state_(model_->plan.state_bytes()),
      handed_(model_->plan.handed_bytes()),
      tokens_of_slots_((description_.num_slots + 1) * sizeof(std::int32_t)),
      recent_tokens_((description_.num_slots + 1) * kRecentTokens * sizeof(std::int32_t)),
      began_(sizeof(std::uint64_t)),
      pinned_inputs_(ring_size_ * model_->plan.pinned_input_bytes),
      pinned_tokens_(ring_size_ * model_->plan.capacity.output_rows * sizeof(std::int32_t)),
      pinned_logprobs_(ring_size_ * model_->plan.capacity.output_rows * sizeof(RowLogprobs)),
      pinned_vectors_(ring_size_ * model_->plan.vector_bytes()),
      pinned_handed_(ring_size_ * model_->plan.handed_bytes()),
      pinned_times_(ring_size_ * sizeof(std::uint64_t)),
      word_(sizeof(std::uint64_t)),
      gemms_(gemm_workspace_.get(), kGemmWorkspaceBytes),
      choices_(model_->gemms),
      executor_(executor_memory(), model_->weights, gemms_, choices_,
                {.num_heads = model_->plan.network->shapes().num_heads,
                 .compute_type = model_->plan.compute_type,
                 .rotary_dim = model_->plan.rotary_dim(),
                 .may_fuse = model_->plan.may_fuse(),
                 .overlaps_kernels = model_->plan.gpu.compute_capability >= 90}),
      copy_streams_({.ordinal = model_->plan.gpu.ordinal,
                     .layout = model_->plan.layout(),
                     .pool = pool_.get(),
                     .num_pages = description_.num_pages},
                    model_->plan.has_pages() ? options.host_pages : nullptr),
      completion_(make_completion(model_->plan.settings.completion,
                                  reinterpret_cast<const std::uint64_t*>(word_.get()), compute_)),
      has_token_(description_.num_slots) {
  (void)use_choices(gemms_, choices_);
  CUDA_CHECK(cudaMemset(few_token_workspace_.get(), 0, few_token_workspace_.size_bytes()));
  CUDA_CHECK(cudaMemset(tokens_of_slots_.get(), 0xFF, tokens_of_slots_.size_bytes()));
  if (model_->plan.has_rows())  // a probe reads rows that nothing has written
    CUDA_CHECK(cudaMemset(state_.get(), 0, state_.size_bytes()));
  CUDA_CHECK(cudaDeviceSynchronize());
  waiter_ = std::thread([this] { wait(); });
}

// Memory of members that are declared, and so made, before the executor.
ExecutorMemory CudaDevice::executor_memory() const {
  return {.arena = arena_.get(),
          .arena_bytes = arena_.size_bytes(),
          .pool = pool_.get(),
          .layout = model_->plan.layout(),
          .partials = reinterpret_cast<float*>(partials_.get()),
          .cosines_sines = reinterpret_cast<const float*>(model_->cosines_sines.get()),
          .tokens_of_slots = reinterpret_cast<std::int32_t*>(tokens_of_slots_.get()),
          .recent_tokens = reinterpret_cast<std::int32_t*>(recent_tokens_.get()),
          .sampled = reinterpret_cast<std::int32_t*>(sampled_.get()),
          .logprobs = reinterpret_cast<RowLogprobs*>(logprobs_.get()),
          .began = reinterpret_cast<std::uint64_t*>(began_.get()),
          .few_token_workspace = few_token_workspace_.get(),
          .vectors = reinterpret_cast<float*>(vectors_.get()),
          .state = reinterpret_cast<float*>(state_.get()),
          .state_width = model_->plan.network->shapes().row_width,
          .states = reinterpret_cast<float*>(handed_.get())};
}

CudaDevice::~CudaDevice() {
  set_listener({});
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
  }
  changed_.notify_all();
  copy_streams_.abandon();
  // What is queued uses memory that goes now. An error is nobody's any more.
  (void)cudaSetDevice(model_->plan.gpu.ordinal);
  (void)cudaDeviceSynchronize();
  waiter_.join();
}

Ticket CudaDevice::submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) {
  Submission submission{.ticket = ++submitted_, .batch = batch};
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return submitted_ - completed_.load() <= ring_size_; });
    submission.error = failure_;
  }
  if (submission.error.empty()) {
    try {
      queue(submission.ticket, program, batch);
    } catch (const std::exception& error) {
      submission.error = error.what();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(submission));
  }
  changed_.notify_all();
  return submitted_;
}

// What can be wrong with a batch shows before anything of it is queued: it then
// fails alone. What goes wrong later is the device's end.
void CudaDevice::queue(Ticket ticket, const std::shared_ptr<const Program>& program,
                       const std::shared_ptr<const Batch>& batch) {
  CUDA_CHECK(cudaSetDevice(model_->plan.gpu.ordinal));  // of this thread, which may not have made the device
  check_batch(program.get(), *batch, description_);
  std::optional<Prepared> prepared;
  if (!batch->slices.empty())
    prepared = prepare(program, *batch,
                       pinned_inputs_.get() + ticket % ring_size_ * model_->plan.pinned_input_bytes);
  copy_streams_.begin(batch, compute_);
  try {
    if (prepared) queue_program(*prepared, *batch);
    if (const std::size_t size = vector_bytes(*batch, model_->plan.cell); size > 0)
      CUDA_CHECK(cudaMemcpyAsync(pinned_vectors(ticket), vectors_.get(), size, cudaMemcpyDeviceToHost,
                                 compute_.handle()));
    if (const std::size_t size = handed_bytes(*batch, model_->plan); size > 0)
      CUDA_CHECK(cudaMemcpyAsync(pinned_handed(ticket), handed_.get(), size, cudaMemcpyDeviceToHost,
                                 compute_.handle()));
    launch_signal({.token_ids = reinterpret_cast<const std::int32_t*>(sampled_.get()),
                   .num_tokens = batch->num_output_rows(),
                   .host_token_ids = pinned_tokens(ticket),
                   .logprobs = reinterpret_cast<const RowLogprobs*>(logprobs_.get()),
                   .num_logprobs = num_logprobs(*batch),
                   .host_logprobs = pinned_logprobs(ticket),
                   .began = prepared ? reinterpret_cast<const std::uint64_t*>(began_.get()) : nullptr,
                   .host_nanoseconds = pinned_time(ticket),
                   .word = reinterpret_cast<std::uint64_t*>(word_.get()),
                   .batch = ticket},
                  compute_.handle());
    copy_streams_.end(compute_);
    completion_->queue(ticket, compute_);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = error.what();
    throw;
  }
}

CudaDevice::Prepared CudaDevice::prepare(const std::shared_ptr<const Program>& program, const Batch& batch,
                                         std::byte* pinned) {
  Prepared prepared{.bound = &executor_.bind(program), .input = pinned};
  AttentionPlan plan;
  if (model_->plan.has_pages()) plan = plan_attention(batch.slices, model_->plan.attention);
  if (model_->plan.cell.state == StateKind::kNone) plan = plan_self_attention(batch.slices);
  if (plan.num_partials > model_->plan.attention.max_partials)
    throw std::runtime_error("attention of the batch takes " + std::to_string(plan.num_partials) +
                             " partial rows, planned were " +
                             std::to_string(model_->plan.attention.max_partials));
  prepared.takes_graph = can_be_graph(batch);
  prepared.capacity = choose_capacity(batch, plan, program->shape, prepared.takes_graph);
  if (const std::size_t size = BatchInput::size_bytes(prepared.capacity);
      size > model_->plan.pinned_input_bytes) {
    prepared.large_input.resize(size);
    prepared.input = prepared.large_input.data();
  }
  fill(batch, plan, prepared.capacity, {.page = description_.num_pages, .slot = description_.num_slots},
       BatchInput::at(prepared.input, prepared.capacity));
  prepared.rounds = std::move(plan.rounds);
  if (prepared.takes_graph)
    prepared.rounds = {{.num_items = prepared.capacity.items, .num_merges = prepared.capacity.merges}};
  return prepared;
}

void CudaDevice::queue_program(const Prepared& prepared, const Batch& batch) {
  const BatchCapacity& capacity = prepared.capacity;
  const BoundProgram& bound = *prepared.bound;
  // What is not pinned is taken at the call.
  CUDA_CHECK(cudaMemcpyAsync(input_.get(), prepared.input, BatchInput::size_bytes(capacity),
                             cudaMemcpyHostToDevice, compute_.handle()));
  BatchOnDevice on_device{.num_tokens = batch.num_tokens(),
                          .num_output_rows = batch.num_output_rows(),
                          .input = BatchInput::at(input_.get(), capacity),
                          .capacity = capacity,
                          .attention_rounds = prepared.rounds};
  if (!prepared.takes_graph) {
    ExecutorHooks hooks{
        .before_layer = [&](std::uint32_t layer) { copy_streams_.before_layer(layer, compute_); }};
    if (options_.on_logits) hooks.before_sampling = [&] { show_logits(bound, batch); };
    executor_.queue(bound, on_device, compute_.handle(), hooks);
    return;
  }
  copy_streams_.before_all_layers(compute_);
  on_device.num_tokens = capacity.tokens;
  on_device.num_output_rows = capacity.output_rows;
  on_device.has_spare_blocks = true;
  graphs_.run({bound.program, capacity}, compute_,
              [&](StreamHandle stream) { executor_.queue(bound, on_device, stream); });
}

// Room as a graph wants it, unless that is more than was planned, or attention takes more
// than one round: the batch then gets what it needs, and no graph.
BatchCapacity CudaDevice::choose_capacity(const Batch& batch, const AttentionPlan& plan,
                                          const ProgramShape& shape, bool& takes_graph) const {
  const BatchCapacity exact = capacity_of(batch, plan, model_->plan.cell.state);
  const BatchCapacity rounded = graph_capacity(exact, shape);
  takes_graph =
      takes_graph && plan.rounds.size() <= 1 && BatchInput::size_bytes(rounded) <= model_->plan.input_bytes;
  if (takes_graph) return rounded;
  if (const std::size_t size = BatchInput::size_bytes(exact); size > model_->plan.input_bytes)
    throw std::runtime_error("what describes the batch takes " + std::to_string(size) +
                             " bytes, planned were " + std::to_string(model_->plan.input_bytes));
  return exact;
}

// Kernels of decode steps and of recurrent cells are short.
bool CudaDevice::can_be_graph(const Batch& batch) const {
  if (!model_->plan.settings.uses_graphs || options_.on_logits) return false;
  return model_->plan.has_rows() ||
         std::all_of(batch.slices.begin(), batch.slices.end(),
                     [](const SequenceSlice& slice) { return slice.num_tokens == 1 && slice.sample; });
}

void CudaDevice::show_logits(const BoundProgram& bound, const Batch& batch) {
  std::vector<float> logits(std::size_t{batch.num_output_rows()} *
                            bound.lowered.tensors[bound.logits].columns);
  compute_.synchronize();
  CUDA_CHECK(cudaMemcpy(logits.data(), bound.temporaries[bound.logits], logits.size() * sizeof(float),
                        cudaMemcpyDeviceToHost));
  options_.on_logits(batch, logits);
}

BatchResult CudaDevice::collect(Ticket ticket) {
  if (ticket != collected_ + 1 || ticket > completed()) {
    throw std::logic_error("ticket " + std::to_string(ticket) +
                           " is not the next one to collect, or is not completed");
  }
  const std::lock_guard lock(mutex_);
  BatchResult result = std::move(results_.front());
  results_.pop_front();
  ++collected_;
  return result;
}

void CudaDevice::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

std::int32_t* CudaDevice::pinned_tokens(Ticket ticket) const {
  return reinterpret_cast<std::int32_t*>(pinned_tokens_.get()) +
         ticket % ring_size_ * model_->plan.capacity.output_rows;
}

RowLogprobs* CudaDevice::pinned_logprobs(Ticket ticket) const {
  return reinterpret_cast<RowLogprobs*>(pinned_logprobs_.get()) +
         ticket % ring_size_ * model_->plan.capacity.output_rows;
}

float* CudaDevice::pinned_vectors(Ticket ticket) const {
  return reinterpret_cast<float*>(pinned_vectors_.get() + ticket % ring_size_ * model_->plan.vector_bytes());
}

float* CudaDevice::pinned_handed(Ticket ticket) const {
  return reinterpret_cast<float*>(pinned_handed_.get() + ticket % ring_size_ * model_->plan.handed_bytes());
}

std::uint64_t* CudaDevice::pinned_time(Ticket ticket) const {
  return reinterpret_cast<std::uint64_t*>(pinned_times_.get()) + ticket % ring_size_;
}

// The slot whose last token is the slice's input: of a node, the first row that it reads.
SlotId CudaDevice::input_slot(const Batch& batch, const SequenceSlice& slice) const {
  return model_->plan.has_rows() ? batch.input_rows[slice.first_input] : slice.slot;
}

// ---- the waiting thread ----

void CudaDevice::wait() {
  (void)cudaSetDevice(model_->plan.gpu.ordinal);
  Submission submission;
  while (next_submission(submission)) {
    BatchResult result;
    try {
      result = result_of(submission);
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_.load()) return;
        if (failure_.empty()) failure_ = error.what();
        result.error = failure_;
      }
      copy_streams_.abandon();  // who submits may be waiting for pages of a batch that never ends
    }
    if (stop_.load()) return;
    result.batch_id = submission.batch->id;
    submission = {};  // the batch is the caller's again before the signal
    publish(std::move(result));
  }
}

bool CudaDevice::next_submission(Submission& submission) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_.load() || !queue_.empty(); });
  if (stop_.load()) return false;
  submission = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

// Throws if the device has failed, or stop_ was raised.
BatchResult CudaDevice::result_of(const Submission& submission) {
  BatchResult result;
  const Batch& batch = *submission.batch;
  if (!submission.error.empty()) {
    for (const SequenceSlice& slice : batch.slices)
      if (slice.sample && slice.slot < has_token_.size()) has_token_[slice.slot] = false;
    result.error = submission.error;
    return result;
  }
  if (!completion_->wait(submission.ticket, stop_)) throw std::runtime_error("the device was stopped");
  if (!batch.slices.empty())  // else only pages were moved
    result.network_nanoseconds = static_cast<std::int64_t>(*pinned_time(submission.ticket));
  PageCopyStreams::Outcome outcome = copy_streams_.finish();
  result.failed_loads = std::move(outcome.failed_loads);
  result.tokens = tokens_of(submission, outcome.void_slices);
  result.logprobs = logprobs_of(submission);
  result.vectors = vectors_of(submission);
  result.states = states_of(submission);
  return result;
}

std::vector<std::int32_t> CudaDevice::tokens_of(const Submission& submission,
                                                const std::vector<bool>& void_slices) {
  const auto& slices = submission.batch->slices;
  const std::int32_t* sampled = pinned_tokens(submission.ticket);
  std::vector<std::int32_t> tokens(slices.size(), -1);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const SequenceSlice& slice = slices[i];
    if (slice.sample) {
      // A slot without a token passes its failure on instead of inventing one.
      const bool had_input = !slice.input_from_slot || has_token_[input_slot(*submission.batch, slice)];
      tokens[i] = had_input ? *sampled : -1;
      if (slice.draws()) has_token_[slice.slot] = tokens[i] >= 0;
      ++sampled;
    }
    if (!void_slices.empty() && void_slices[i]) tokens[i] = kVoidContext;
  }
  return tokens;
}

std::vector<TokenLogprobs> CudaDevice::logprobs_of(const Submission& submission) const {
  const auto& slices = submission.batch->slices;
  if (num_logprobs(*submission.batch) == 0) return {};
  const RowLogprobs* row = pinned_logprobs(submission.ticket);
  std::vector<TokenLogprobs> logprobs(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (!gives_logprobs(slices[i])) continue;
    logprobs[i].logprob = row->logprob;
    logprobs[i].top.assign(row->top, row->top + std::min<std::size_t>(row->num_top, kMaxTopLogprobs));
    ++row;
  }
  return logprobs;
}

std::vector<float> CudaDevice::vectors_of(const Submission& submission) const {
  const std::size_t size = vector_bytes(*submission.batch, model_->plan.cell) / sizeof(float);
  const float* vectors = pinned_vectors(submission.ticket);
  return {vectors, vectors + size};
}

std::vector<float> CudaDevice::states_of(const Submission& submission) const {
  const std::size_t size = handed_bytes(*submission.batch, model_->plan) / sizeof(float);
  const float* states = pinned_handed(submission.ticket);
  return {states, states + size};
}

void CudaDevice::publish(BatchResult result) {
  {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    completed_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
}

}  // namespace troupe::cuda
