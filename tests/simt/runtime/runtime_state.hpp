// SPDX-License-Identifier: Apache-2.0
// All devices of the runtime, which are one: its streams, events, captures and graphs, and
// the error it ended with. CUDA's functions (cuda_*.cpp) check their arguments
// and come here. Any thread may call; what waits doesn't hold the mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/simt/runtime/executor.hpp"
#include "tests/simt/runtime/graph.hpp"
#include "tests/simt/runtime/memory_map.hpp"
#include "tests/simt/runtime/runtime.hpp"
#include "tests/simt/runtime/store_history.hpp"

struct CUstream_st {
  int gpu = 0;  // the default stream: of any
  unsigned flags = 0;
  int priority = 0;
  troupe::simt::OperationPointer last;
  std::shared_ptr<troupe::simt::Capture> capture;  // null: it doesn't capture
  std::set<std::size_t> front;                     // nodes that the next one follows
};

struct CUevent_st {
  int gpu = 0;
  unsigned flags = 0;
  troupe::simt::OperationPointer record;           // null: never
  std::shared_ptr<troupe::simt::Capture> capture;  // that it was recorded in last
  std::set<std::size_t> front;
};

namespace troupe::simt {

class RuntimeState {
 public:
  static RuntimeState& instance();
  ~RuntimeState();

  MemoryMap& memory() { return memory_; }
  StoreHistory& stores() { return stores_; }
  int num_multiprocessors() const { return num_multiprocessors_; }
  int num_gpus() const { return num_gpus_; }

  // ---- the device's error ----
  cudaError_t error() const;
  std::string look_at_kernel_error();
  void fail_operation(std::uint64_t n, cudaError_t error);
  void hang(bool is_hanging);
  void reset();
  void begin(const RuntimeSettings& settings);
  void end();  // waits unless broken or hanging

  // ---- streams ----
  cudaStream_t create_stream(unsigned flags, int priority);
  cudaError_t destroy_stream(cudaStream_t stream);
  cudaError_t describe_stream(cudaStream_t stream, unsigned* flags, int* priority);
  cudaError_t issue(cudaStream_t stream, Work work);
  cudaError_t query_stream(cudaStream_t stream);
  cudaError_t wait_for_stream(cudaStream_t stream);
  cudaError_t wait_for_event(cudaStream_t stream, cudaEvent_t event);
  cudaError_t wait_for_device();
  cudaError_t wait_for_work();  // the same while something else captures

  // ---- events ----
  cudaEvent_t create_event(unsigned flags);
  cudaError_t destroy_event(cudaEvent_t event);
  cudaError_t record_event(cudaEvent_t event, cudaStream_t stream);
  cudaError_t query_event(cudaEvent_t event);
  cudaError_t wait_for_event(cudaEvent_t event);
  cudaError_t elapsed_time(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

  // ---- captures and graphs ----
  cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode);
  cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph);
  cudaError_t capture_status(cudaStream_t stream, cudaStreamCaptureStatus* status);
  // What cudaMalloc and its like do first. Spoils the captures it is unsafe for.
  cudaError_t check_unsafe_call();
  // For what can't be done with a stream that captures: spoils the capture.
  cudaError_t check_not_capturing(cudaStream_t stream);
  cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph);
  cudaError_t launch(cudaGraphExec_t exec, cudaStream_t stream);
  cudaError_t check_exec(cudaGraphExec_t exec);
  cudaError_t update(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result);
  cudaError_t destroy(cudaGraph_t graph);
  cudaError_t destroy(cudaGraphExec_t exec);
  cudaError_t nodes_of(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count);

  std::uint64_t num_kernels() const { return num_kernels_; }
  LiveObjects live_objects() const;

 private:
  RuntimeState();
  template <typename Object>
  using Owned = std::map<Object*, std::unique_ptr<Object>>;

  // All of these are called with the mutex held.
  CUstream_st* find(cudaStream_t stream);  // null: no such stream
  CUevent_st* find(cudaEvent_t event);
  bool is_asynchronous() const { return has_runtime_ || !streams_.empty(); }
  bool is_blocking(const CUstream_st& stream) const;
  std::vector<OperationPointer> predecessors(CUstream_st& stream);
  OperationPointer put(CUstream_st& stream, std::function<void()> run, std::vector<OperationPointer> after);
  std::function<void()> counted(const Work& work);
  cudaError_t add_node(CUstream_st& stream, Work work);
  cudaError_t join(CUstream_st& stream, const CUevent_st& event);
  bool is_blocking_stream_capturing() const;
  cudaError_t check_legacy_stream(const CUstream_st& stream);
  cudaError_t check_can_wait(const CUstream_st& stream);
  static cudaError_t check_can_wait(const CUevent_st& event);
  cudaError_t check_gpu(const CUstream_st& stream) const;  // it is the current one's
  static void spoil(Capture& capture);
  void release(Capture& capture);  // its streams work again

  void stop_if_unseen();

  mutable std::mutex mutex_;
  MemoryMap memory_;
  StoreHistory stores_{memory_};
  std::atomic<int> num_multiprocessors_;
  std::atomic<int> num_gpus_;
  bool has_runtime_ = false;
  std::atomic<bool> is_hanging_ = false;
  CUstream_st default_stream_;
  Owned<CUstream_st> streams_;
  std::vector<OperationPointer> destroyed_;  // last operations of destroyed streams
  Owned<CUevent_st> events_;
  Owned<CUgraph_st> graphs_;
  Owned<CUgraphExec_st> execs_;
  std::set<std::shared_ptr<Capture>> captures_;  // that go on
  std::uint64_t fails_in_ = 0;                   // operations; 0: never
  cudaError_t fails_with_ = cudaSuccess;
  std::atomic<std::uint64_t> num_kernels_ = 0;
  std::string kernel_error_;  // looked at last
  bool was_error_looked_at_ = false;
  Executor executor_;  // last: its thread ends first
};

// Of the calling thread, as cudaSetDevice() sets it.
int current_gpu();
void set_current_gpu(int gpu);
// The same; returns the one before.
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);

// What every function of CUDA's does around its body: refused inside of an
// operation and after a failure of the device; keeps the error for
// cudaGetLastError().
cudaError_t keep_error(cudaError_t error);

template <typename Body>
cudaError_t call(Body body) {
  if (Executor::is_in_operation()) return keep_error(cudaErrorNotPermitted);
  auto& state = RuntimeState::instance();
  if (const cudaError_t error = state.error(); error != cudaSuccess) return keep_error(error);
  return keep_error(body(state));
}

// For what frees: done in any case, though the device's error is returned.
template <typename Body>
cudaError_t call_always(Body body) {
  if (Executor::is_in_operation()) return keep_error(cudaErrorNotPermitted);
  auto& state = RuntimeState::instance();
  const cudaError_t error = body(state);
  const cudaError_t device_error = state.error();
  return keep_error(device_error != cudaSuccess ? device_error : error);
}

}  // namespace troupe::simt
