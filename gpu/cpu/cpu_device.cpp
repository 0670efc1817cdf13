// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_device.hpp"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gpu/cpu/pool_layout.hpp"
#include "gpu/program/early_gather.hpp"

namespace troupe {
namespace {

// How long the executor looks for the next batch before it sleeps: the worker
// usually needs a few microseconds to form it.
constexpr std::chrono::microseconds kSubmissionSpin{20};

// The programs of its cell that draws, all of them.
bool hands_out_states(const CpuModel& model) {
  const auto programs = build_programs(*model.network, model.largest, model.compute_type);
  return std::any_of(programs.begin(), programs.end(),
                     [](const Program& program) { return program.state.has_value(); });
}

DeviceDescription describe(const CpuModel& model, const CpuDeviceOptions& options) {
  DeviceDescription description;
  description.name = "cpu (" + std::to_string(model.settings.num_threads) + " threads, " +
                     std::string(name_of(best_isa())) + ", " + std::string(name_of(model.compute_type)) +
                     (model.settings.deterministic ? "" : ", not deterministic") + ")";
  const bool has_pages = model.cell().state == StateKind::kPages;
  description.page_size = kKvPageTokens;
  description.num_pages = model.memory.num_pages;
  description.num_host_pages = has_pages && options.host_pages ? options.host_pages->num_pages() : 0;
  description.num_slots = model.memory.request.num_slots;
  description.max_batch_tokens = model.largest.max_tokens;
  description.context_length = model.memory.request.context_length;
  description.vocabulary_size = model.network->shapes().vocabulary_size;
  description.cells = model.network->cells();
  description.waits_for_masks = true;
  description.hands_out_states = hands_out_states(model);
  return description;
}

ProgramRunnerSettings runner_settings(const CpuModel& model, const DeviceDescription& description,
                                      const CpuDeviceOptions& options) {
  return {.description = description,
          .kv_layout = in_whole_huge_pages(kv_layout_of(model.network->shapes(), model.compute_type,
                                                        model.memory.num_pages, model.settings.kv_type)),
          .activations = model.settings.activations,
          .num_heads = model.network->shapes().num_heads,
          .row_width = model.network->shapes().row_width,
          .on_logits = options.on_logits,
          .host_pages = description.num_host_pages > 0 ? options.host_pages : nullptr,
          .longest_mask_wait = options.longest_mask_wait,
          .poison_memory = options.poison_memory};
}

std::shared_ptr<CorePool> own_cores(const CpuModel& model) {
  return std::make_shared<CorePool>(
      ThreadPoolOptions{.num_threads = model.settings.num_threads, .cpus = model.settings.cpus});
}

}  // namespace

CpuDevice::CpuDevice(std::shared_ptr<const CpuModel> model, const CpuDeviceOptions& options)
    : model_(std::move(model)),
      description_(describe(*model_, options)),
      cores_(options.cores ? options.cores : own_cores(*model_)),
      runner_(runner_settings(*model_, description_, options), model_->weights, model_->rotary,
              gathered_early(build_programs(*model_->network, model_->largest, model_->compute_type)),
              cores_->threads()),
      copy_thread_(runner_.copier(), options.link),
      executor_([this] { execute(); }) {}

CpuDevice::~CpuDevice() {
  set_listener({});
  {
    const std::lock_guard lock(queue_mutex_);
    stop_.store(true);
  }
  queue_filled_.notify_one();
  copy_thread_.stop();  // the executor may be waiting for a layer
  executor_.join();
}

Ticket CpuDevice::submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) {
  auto copies = copy_thread_.begin(batch);
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back({std::move(program), std::move(batch), std::move(copies)});
  }
  offered_.store(++submitted_, std::memory_order_release);
  queue_filled_.notify_one();
  return submitted_;
}

BatchResult CpuDevice::collect(Ticket ticket) {
  if (ticket != collected_ + 1 || ticket > completed()) {
    throw std::logic_error("ticket " + std::to_string(ticket) +
                           " is not the next one to collect, or is not completed");
  }
  const std::lock_guard lock(queue_mutex_);
  BatchResult result = std::move(results_.front());
  results_.pop_front();
  ++collected_;
  return result;
}

void CpuDevice::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void CpuDevice::execute() {
  cores_->threads().bind_future_caller();
  Submission submission;
  while (wait_for_submission(submission)) {
    BatchResult result = run(submission);
    submission = {};  // the batch is the caller's again before the signal
    copy_thread_.end_batch();
    publish(std::move(result));
  }
}

bool CpuDevice::wait_for_submission(Submission& submission) {
  const auto deadline = std::chrono::steady_clock::now() + kSubmissionSpin;
  while (offered_.load(std::memory_order_acquire) == completed_.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() < deadline) {
    sched_yield();
  }
  std::unique_lock lock(queue_mutex_);
  queue_filled_.wait(lock, [this] { return stop_.load() || !queue_.empty(); });
  if (stop_.load()) return false;
  submission = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

BatchResult CpuDevice::run(const Submission& submission) {
  std::optional<CorePool::Turn> turn;
  if (!submission.batch->slices.empty()) turn.emplace(*cores_);  // copies alone need no cores
  const auto start = std::chrono::steady_clock::now();
  BatchResult result;
  try {
    result = runner_.run(submission.program, *submission.batch, submission.copies.get(), stop_);
  } catch (const std::exception& error) {
    runner_.void_slots(*submission.batch);
    result.error = error.what();
    if (result.error.empty()) result.error = "unknown failure";
    if (submission.copies) submission.copies->wait_for_end();
  }
  result.batch_id = submission.batch->id;
  result.network_nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count() -
      result.mask_sleep_nanoseconds;
  return result;
}

void CpuDevice::publish(BatchResult result) {
  {
    const std::lock_guard lock(queue_mutex_);
    results_.push_back(std::move(result));
  }
  completed_.fetch_add(1, std::memory_order_release);
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
}

}  // namespace troupe
