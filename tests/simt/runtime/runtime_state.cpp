// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/runtime_state.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "tests/simt/interpreter/kernel_error.hpp"

namespace troupe::simt {
namespace {

// Ordered by fail_operation().
struct Fault {
  cudaError_t error;
};

struct Failure {
  cudaError_t code = cudaSuccess;
  std::string text;  // empty: ordered
};

Failure describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Fault& fault) {
    return {fault.error, ""};
  } catch (const KernelError& kernel_error) {
    return {cudaErrorIllegalAddress, kernel_error.what()};
  } catch (const std::exception& other) {
    return {cudaErrorLaunchFailure, other.what()};
  } catch (...) {
    return {cudaErrorLaunchFailure, "an operation threw something that is no std::exception"};
  }
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int gpu_of_thread = 0;

int num_gpus_outside() {
  const char* text = std::getenv("SIMT_GPUS");
  return text == nullptr ? RuntimeSettings{}.num_gpus : std::atoi(text);
}

}  // namespace

cudaError_t keep_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int current_gpu() { return gpu_of_thread; }
void set_current_gpu(int gpu) { gpu_of_thread = gpu; }

RuntimeState& RuntimeState::instance() {
  static RuntimeState state;
  return state;
}

RuntimeState::RuntimeState()
    : num_multiprocessors_(RuntimeSettings{}.num_multiprocessors), num_gpus_(num_gpus_outside()) {
  memory_.set_budget(RuntimeSettings{}.memory_bytes, {});
}

RuntimeState::~RuntimeState() { stop_if_unseen(); }

// ---- the device's error ----

cudaError_t RuntimeState::error() const {
  if (!executor_.has_failed()) return cudaSuccess;
  const std::exception_ptr failure = executor_.failure();
  return failure ? describe(failure).code : cudaSuccess;
}

std::string RuntimeState::look_at_kernel_error() {
  const std::exception_ptr failure = executor_.failure();
  const std::lock_guard lock(mutex_);
  if (failure) {
    was_error_looked_at_ = true;
    kernel_error_ = describe(failure).text;
  }
  return kernel_error_;
}

void RuntimeState::stop_if_unseen() {
  const std::exception_ptr failure = executor_.failure();
  if (!failure || was_error_looked_at_) return;
  const std::string text = describe(failure).text;
  if (text.empty()) return;
  std::fprintf(stderr, "A kernel failed, and nobody asked for last_kernel_error(): %s\n", text.c_str());
  std::abort();
}

void RuntimeState::fail_operation(std::uint64_t n, cudaError_t error) {
  const std::lock_guard lock(mutex_);
  fails_in_ = n;
  fails_with_ = error;
}

void RuntimeState::hang(bool is_hanging) {
  is_hanging_ = is_hanging;
  executor_.set_hanging(is_hanging);
}

void RuntimeState::reset() {
  stop_if_unseen();
  executor_.reset();
  last_error = cudaSuccess;
  const std::lock_guard lock(mutex_);
  is_hanging_ = false;
  was_error_looked_at_ = false;
  fails_in_ = 0;
}

void RuntimeState::begin(const RuntimeSettings& settings) {
  const std::lock_guard lock(mutex_);
  has_runtime_ = true;
  num_multiprocessors_ = settings.num_multiprocessors;
  num_gpus_ = settings.num_gpus;
  memory_.set_budget(settings.memory_bytes, settings.costs);
}

void RuntimeState::end() {
  if (!is_hanging_) executor_.wait_for_all();
  reset();
  const std::lock_guard lock(mutex_);
  has_runtime_ = false;
  num_multiprocessors_ = RuntimeSettings{}.num_multiprocessors;
  num_gpus_ = num_gpus_outside();
  gpu_of_thread = 0;
  memory_.set_budget(RuntimeSettings{}.memory_bytes, {});
}

// ---- streams ----

CUstream_st* RuntimeState::find(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return &default_stream_;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->first;
}

cudaStream_t RuntimeState::create_stream(unsigned flags, int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->gpu = current_gpu();
  stream->flags = flags;
  stream->priority = priority;
  const std::lock_guard lock(mutex_);
  const cudaStream_t handle = stream.get();
  streams_.emplace(handle, std::move(stream));
  return handle;
}

cudaError_t RuntimeState::destroy_stream(cudaStream_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = *found->first;
  if (stream.capture != nullptr) {
    spoil(*stream.capture);
    stream.capture->streams.erase(&stream);
    if (stream.capture->origin == &stream) release(*stream.capture);
  }
  if (is_blocking(stream)) destroyed_.push_back(stream.last);
  streams_.erase(found);
  return cudaSuccess;
}

cudaError_t RuntimeState::describe_stream(cudaStream_t handle, unsigned* flags, int* priority) {
  const std::lock_guard lock(mutex_);
  const CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags != nullptr) *flags = stream->flags;
  if (priority != nullptr) *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t RuntimeState::issue(cudaStream_t handle, Work work) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_gpu(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) return add_node(*stream, std::move(work));
  if (const cudaError_t error = check_legacy_stream(*stream); error != cudaSuccess) return error;
  put(*stream, counted(work), predecessors(*stream));
  return cudaSuccess;
}

cudaError_t RuntimeState::check_gpu(const CUstream_st& stream) const {
  const bool is_right = &stream == &default_stream_ || stream.gpu == current_gpu();
  return is_right ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

// Counts it, and lets it fail if it was told to.
std::function<void()> RuntimeState::counted(const Work& work) {
  if (work.type == cudaGraphNodeTypeKernel) ++num_kernels_;
  if (is_asynchronous() && fails_in_ > 0 && --fails_in_ == 0) {
    return [error = fails_with_] { throw Fault{error}; };
  }
  if (work.type == cudaGraphNodeTypeKernel) return work.run;
  return [this, run = work.run] {
    stores_.forget();
    run();
  };
}

bool RuntimeState::is_blocking(const CUstream_st& stream) const {
  return (stream.flags & cudaStreamNonBlocking) == 0;
}

std::vector<OperationPointer> RuntimeState::predecessors(CUstream_st& stream) {
  std::vector<OperationPointer> result{stream.last};
  if (&stream != &default_stream_) {
    if (is_blocking(stream)) result.push_back(default_stream_.last);
    return result;
  }
  std::erase_if(destroyed_, [&](const auto& operation) { return executor_.has_ended(operation); });
  result.insert(result.end(), destroyed_.begin(), destroyed_.end());
  for (const auto& [other, owner] : streams_) {
    if (is_blocking(*other)) result.push_back(other->last);
  }
  return result;
}

OperationPointer RuntimeState::put(CUstream_st& stream, std::function<void()> run,
                                   std::vector<OperationPointer> after) {
  stream.last = is_asynchronous() ? executor_.add(std::move(run), after) : executor_.run_here(run);
  return stream.last;
}

cudaError_t RuntimeState::query_stream(cudaStream_t handle) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_can_wait(*stream); error != cudaSuccess) return error;
  for (const auto& operation : predecessors(*stream)) {
    if (!executor_.has_ended(operation)) return cudaErrorNotReady;
  }
  return cudaSuccess;
}

cudaError_t RuntimeState::wait_for_stream(cudaStream_t handle) {
  std::vector<OperationPointer> awaited;
  {
    const std::lock_guard lock(mutex_);
    CUstream_st* stream = find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_can_wait(*stream); error != cudaSuccess) return error;
    awaited = predecessors(*stream);
  }
  for (const auto& operation : awaited) executor_.wait(operation);
  return error();
}

cudaError_t RuntimeState::wait_for_device() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& capture : captures_) spoil(*capture);
    if (!captures_.empty()) return cudaErrorStreamCaptureUnsupported;
  }
  return wait_for_work();
}

cudaError_t RuntimeState::wait_for_work() {
  executor_.wait_for_all();
  return error();
}

cudaError_t RuntimeState::wait_for_event(cudaStream_t stream_handle, cudaEvent_t event_handle) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(stream_handle);
  const CUevent_st* event = find(event_handle);
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->capture != nullptr) return join(*stream, *event);
  if (event->record == nullptr) return cudaSuccess;
  if (stream->capture != nullptr) {
    spoil(*stream->capture);
    return cudaErrorStreamCaptureIsolation;
  }
  if (const cudaError_t error = check_legacy_stream(*stream); error != cudaSuccess) return error;
  auto after = predecessors(*stream);
  after.push_back(event->record);
  put(*stream, nullptr, std::move(after));
  return cudaSuccess;
}

// ---- events ----

CUevent_st* RuntimeState::find(cudaEvent_t event) {
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->first;
}

cudaEvent_t RuntimeState::create_event(unsigned flags) {
  auto event = std::make_unique<CUevent_st>();
  event->gpu = current_gpu();
  event->flags = flags;
  const std::lock_guard lock(mutex_);
  const cudaEvent_t handle = event.get();
  events_.emplace(handle, std::move(event));
  return handle;
}

cudaError_t RuntimeState::destroy_event(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  return events_.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t RuntimeState::record_event(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(stream_handle);
  CUevent_st* event = find(event_handle);
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_gpu(*stream); error != cudaSuccess) return error;
  if (event->gpu != current_gpu()) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    if (stream->capture->status != cudaStreamCaptureStatusActive) {
      return cudaErrorStreamCaptureInvalidated;
    }
    event->capture = stream->capture;
    event->front = stream->front;
    return cudaSuccess;
  }
  if (const cudaError_t error = check_legacy_stream(*stream); error != cudaSuccess) return error;
  event->capture = nullptr;
  event->record = put(*stream, nullptr, predecessors(*stream));
  return cudaSuccess;
}

cudaError_t RuntimeState::query_event(cudaEvent_t handle) {
  const std::lock_guard lock(mutex_);
  const CUevent_st* event = find(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_can_wait(*event); error != cudaSuccess) return error;
  return executor_.has_ended(event->record) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t RuntimeState::wait_for_event(cudaEvent_t handle) {
  OperationPointer record;
  {
    const std::lock_guard lock(mutex_);
    const CUevent_st* event = find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_can_wait(*event); error != cudaSuccess) return error;
    record = event->record;
  }
  executor_.wait(record);
  return error();
}

cudaError_t RuntimeState::elapsed_time(float* milliseconds, cudaEvent_t start_handle,
                                       cudaEvent_t end_handle) {
  const std::lock_guard lock(mutex_);
  const CUevent_st *start = find(start_handle), *end = find(end_handle);
  const auto has_no_time = [](const CUevent_st* event) {
    return event == nullptr || (event->flags & cudaEventDisableTiming) != 0 || event->record == nullptr ||
           event->capture != nullptr;
  };
  if (has_no_time(start) || has_no_time(end)) return cudaErrorInvalidResourceHandle;
  if (!executor_.has_ended(start->record) || !executor_.has_ended(end->record)) {
    return cudaErrorNotReady;
  }
  const std::chrono::duration<float, std::milli> elapsed =
      executor_.end_of(end->record) - executor_.end_of(start->record);
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

LiveObjects RuntimeState::live_objects() const {
  const std::lock_guard lock(mutex_);
  return {.allocations = memory_.num_allocations(MemoryKind::kDevice),
          .pinned_allocations = memory_.num_allocations(MemoryKind::kPinned),
          .streams = streams_.size(),
          .events = events_.size(),
          .graphs = graphs_.size(),
          .graph_execs = execs_.size(),
          .device_bytes = memory_.allocated_bytes()};
}

}  // namespace troupe::simt

cudaError_t cudaPeekAtLastError() {
  const auto error = troupe::simt::RuntimeState::instance().error();
  return error != cudaSuccess ? error : troupe::simt::last_error;
}

cudaError_t cudaGetLastError() {
  const auto error = cudaPeekAtLastError();
  troupe::simt::last_error = cudaSuccess;
  return error;
}
