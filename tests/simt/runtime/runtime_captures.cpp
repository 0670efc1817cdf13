// SPDX-License-Identifier: Apache-2.0
// The part of RuntimeState that captures streams and launches graphs ("CUDA C++
// Programming Guide", "Creating a Graph Using Stream Capture").
#include <algorithm>
#include <utility>

#include "tests/simt/runtime/runtime_state.hpp"

namespace troupe::simt {
namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

}  // namespace

cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode) {
  return std::exchange(mode_of_thread, mode);
}

// ---- captures ----

cudaError_t RuntimeState::begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream == &default_stream_) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->streams = {stream};
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->front.clear();
  captures_.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t RuntimeState::end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool is_valid = capture->status == cudaStreamCaptureStatusActive;
  const bool is_joined = capture->is_joined_by(stream->front);
  release(*capture);
  if (!is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!is_joined) return cudaErrorStreamCaptureUnjoined;
  *graph = capture->graph.get();
  graphs_.emplace(*graph, std::move(capture->graph));
  return cudaSuccess;
}

void RuntimeState::release(Capture& capture) {
  capture.status = cudaStreamCaptureStatusNone;
  std::erase_if(captures_, [&](const auto& other) { return other.get() == &capture; });
  for (CUstream_st* stream : std::exchange(capture.streams, {})) {
    stream->front.clear();
    stream->capture = nullptr;
  }
}

cudaError_t RuntimeState::capture_status(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex_);
  const CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone : stream->capture->status;
  const bool is_implicit = stream == &default_stream_ && is_blocking_stream_capturing();
  return is_implicit ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

cudaError_t RuntimeState::add_node(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
  stream.front = {capture.add_node(std::move(work), std::move(stream.front))};
  return cudaSuccess;
}

cudaError_t RuntimeState::join(CUstream_st& stream, const CUevent_st& event) {
  const std::shared_ptr<Capture> capture = event.capture;
  if (capture->status == cudaStreamCaptureStatusNone) return cudaErrorCapturedEvent;
  if (stream.capture != nullptr && stream.capture != capture) {
    spoil(*stream.capture);
    spoil(*capture);
    return cudaErrorStreamCaptureMerge;
  }
  if (capture->status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
  if (&stream == &default_stream_) {
    spoil(*capture);
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream.capture == nullptr) {
    stream.capture = capture;
    stream.front.clear();
    capture->streams.insert(&stream);
  }
  stream.front.insert(event.front.begin(), event.front.end());
  return cudaSuccess;
}

void RuntimeState::spoil(Capture& capture) {
  if (capture.status == cudaStreamCaptureStatusActive) {
    capture.status = cudaStreamCaptureStatusInvalidated;
  }
}

// ---- what a capture forbids ----

bool RuntimeState::is_blocking_stream_capturing() const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return entry.first->capture != nullptr && is_blocking(*entry.first);
  });
}

cudaError_t RuntimeState::check_legacy_stream(const CUstream_st& stream) {
  if (&stream != &default_stream_ || !is_blocking_stream_capturing()) return cudaSuccess;
  for (const auto& [other, owner] : streams_) {
    if (other->capture != nullptr && is_blocking(*other)) spoil(*other->capture);
  }
  return cudaErrorStreamCaptureImplicit;
}

cudaError_t RuntimeState::check_unsafe_call() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const auto is_harmed = [](const Capture& capture) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    return is_own
               ? capture.mode != cudaStreamCaptureModeRelaxed
               : capture.mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
  };
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures_) {
    if (!is_harmed(*capture)) continue;
    spoil(*capture);
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t RuntimeState::check_not_capturing(cudaStream_t handle) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  return check_can_wait(*stream);
}

cudaError_t RuntimeState::check_can_wait(const CUstream_st& stream) {
  if (stream.capture == nullptr) return check_legacy_stream(stream);
  spoil(*stream.capture);
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t RuntimeState::check_can_wait(const CUevent_st& event) {
  if (event.capture == nullptr) return cudaSuccess;
  spoil(*event.capture);
  return cudaErrorCapturedEvent;
}

// ---- graphs ----

cudaError_t RuntimeState::instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  const std::lock_guard lock(mutex_);
  if (graphs_.count(graph) == 0) return cudaErrorInvalidValue;
  const auto size_bytes = memory_.add_graph(current_gpu());
  if (!size_bytes) return cudaErrorMemoryAllocation;
  auto made = std::make_unique<CUgraphExec_st>();
  made->gpu = current_gpu();
  made->size_bytes = *size_bytes;
  for (const auto& node : graph->nodes) made->nodes.push_back(*node);
  *exec = made.get();
  execs_.emplace(*exec, std::move(made));
  return cudaSuccess;
}

// Behind what is before it in the stream and behind the launch before it. Its
// branches are as free as streams are.
cudaError_t RuntimeState::launch(cudaGraphExec_t exec, cudaStream_t handle) {
  const std::lock_guard lock(mutex_);
  CUstream_st* stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = check_gpu(*stream); error != cudaSuccess) return error;
  if (execs_.count(exec) == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_can_wait(*stream); error != cudaSuccess) return error;
  auto before = predecessors(*stream);
  before.push_back(exec->last);
  const OperationPointer begin = executor_.add(nullptr, before);
  std::vector<OperationPointer> operations{begin};  // node n's is at n + 1
  for (const CUgraphNode_st& node : exec->nodes) {
    std::vector<OperationPointer> after{begin};
    for (const std::size_t number : node.after) after.push_back(operations[number + 1]);
    operations.push_back(executor_.add(counted(node.work), after));
  }
  exec->last = put(*stream, nullptr, operations);
  return cudaSuccess;
}

cudaError_t RuntimeState::check_exec(cudaGraphExec_t exec) {
  const std::lock_guard lock(mutex_);
  return execs_.count(exec) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t RuntimeState::update(cudaGraphExec_t exec, cudaGraph_t graph,
                                 cudaGraphExecUpdateResultInfo* result) {
  const std::lock_guard lock(mutex_);
  if (execs_.count(exec) == 0 || graphs_.count(graph) == 0) return cudaErrorInvalidValue;
  *result = compare(*exec, *graph);
  if (result->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  for (std::size_t i = 0; i < exec->nodes.size(); ++i) exec->nodes[i] = *graph->nodes[i];
  return cudaSuccess;
}

cudaError_t RuntimeState::destroy(cudaGraph_t graph) {
  const std::lock_guard lock(mutex_);
  return graphs_.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t RuntimeState::destroy(cudaGraphExec_t exec) {
  const std::lock_guard lock(mutex_);
  const auto found = execs_.find(exec);
  if (found == execs_.end()) return cudaErrorInvalidValue;
  memory_.drop_graph(found->second->size_bytes, found->second->gpu);
  execs_.erase(found);
  return cudaSuccess;
}

cudaError_t RuntimeState::nodes_of(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const std::lock_guard lock(mutex_);
  if (graphs_.count(graph) == 0) return cudaErrorInvalidValue;
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) {
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    }
  }
  *count = nodes == nullptr ? graph->nodes.size() : std::min(*count, graph->nodes.size());
  return cudaSuccess;
}

}  // namespace troupe::simt
