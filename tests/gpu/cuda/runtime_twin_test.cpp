// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on the CPU: that it keeps CUDA's promises, and no more than those.
#include "tests/support/simt/runtime.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/simt/launch.hpp"

using namespace troupe;

namespace {

constexpr int kCount = 64;
constexpr std::size_t kBytes = kCount * sizeof(int);

#define OK(call) REQUIRE((call) == cudaSuccess)

__global__ void add_kernel(int* values, int count, int number) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += number;
}

__global__ void broken_kernel(int* values) {
  if (threadIdx.x < 3) __syncthreads();
  values[threadIdx.x] = 1;
}

cudaError_t add(int* values, int number, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 2;
  config.blockDim = 32;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, add_kernel, values, kCount, number);
}

cudaError_t break_device(int* values, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.blockDim = 32;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, broken_kernel, values);
}

int* device_ints() {
  int* memory = nullptr;
  OK(cudaMalloc(&memory, kBytes));
  return memory;
}

int* pinned_ints(int value) {
  int* memory = nullptr;
  OK(cudaMallocHost(&memory, kBytes));
  std::fill_n(memory, kCount, value);
  return memory;
}

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

std::vector<int> values_of(const int* memory) {
  std::vector<int> values(kCount);
  OK(cudaMemcpy(values.data(), memory, kBytes, cudaMemcpyDefault));
  return values;
}

const std::vector<int> kOnes(kCount, 1);

// Nothing else runs on the device until it is opened. It stays until the host function
// has returned, which reads it.
class Gate {
 public:
  Gate() : stream_(make_stream()) {
    OK(cudaLaunchHostFunc(
        stream_,
        [](void* gate) {
          auto& self = *static_cast<Gate*>(gate);
          self.is_reached_.set_value();
          self.is_open_.get_future().wait();
        },
        this));
    is_reached_.get_future().wait();
  }
  ~Gate() {
    if (!was_opened_) open();
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    was_opened_ = true;
    is_open_.set_value();
  }

 private:
  cudaStream_t stream_;
  bool was_opened_ = false;
  std::promise<void> is_reached_, is_open_;
};

// Of 20 orders.
template <typename Body>
int count_orders_with(Body body) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    simt::set_order(seed);
    count += body() ? 1 : 0;
  }
  simt::set_order(0);
  return count;
}

template <typename Body>
cudaGraph_t capture(cudaStream_t stream, Body body,
                    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(stream, mode));
  body();
  OK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph));
  return exec;
}

std::size_t num_nodes(cudaGraph_t graph) {
  std::size_t count = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

}  // namespace

// ---- streams ----

TEST_CASE("cuda runtime twin: a stream's operations run in their order") {
  simt::in_several_orders([] {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream();
    int *on_device = device_ints(), *staging = pinned_ints(3), *result = pinned_ints(0);
    OK(cudaMemsetAsync(on_device, 0, kBytes, stream));
    OK(add(on_device, 5, stream));
    OK(cudaMemcpyAsync(on_device, staging, kBytes / 2, cudaMemcpyHostToDevice, stream));
    OK(add(on_device, 1, stream));
    OK(cudaMemcpyAsync(result, on_device, kBytes, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(result[0] == 4);
    CHECK(result[kCount - 1] == 6);
    OK(cudaFree(on_device));
    OK(cudaFreeHost(staging));
    OK(cudaFreeHost(result));
    OK(cudaStreamDestroy(stream));
  });
}

TEST_CASE("cuda runtime twin: an event that nobody waits for shows in some order") {
  const auto is_wrong = [](bool has_wait) {
    const simt::Runtime runtime;
    const cudaStream_t first = make_stream(), second = make_stream();
    const cudaEvent_t event = make_event();
    int *from = device_ints(), *to = device_ints();
    OK(cudaMemset(from, 0, kBytes));
    OK(cudaDeviceSynchronize());
    {
      Gate gate;
      for (int i = 0; i < 4; ++i) OK(add(from, i == 3 ? -2 : 1, first));
      OK(cudaEventRecord(event, first));
      if (has_wait) OK(cudaStreamWaitEvent(second, event));
      OK(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, second));
      gate.open();
      OK(cudaDeviceSynchronize());
    }
    const bool wrong = values_of(to) != kOnes;
    OK(cudaFree(from));
    OK(cudaFree(to));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    return wrong;
  };
  CHECK(count_orders_with([&] { return is_wrong(true); }) == 0);
  const int found = count_orders_with([&] { return is_wrong(false); });
  CHECK(found >= 5);
  CHECK(found < 20);  // in the order of the calls it is right
}

TEST_CASE("cuda runtime twin: a wait is for the record before it, not for later ones") {
  const simt::Runtime runtime;
  const cudaStream_t first = make_stream(), second = make_stream();
  const cudaEvent_t event = make_event();
  OK(cudaStreamWaitEvent(second, event));  // never recorded
  OK(cudaStreamSynchronize(second));
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event));
  OK(cudaEventSynchronize(event));
  Gate gate;
  OK(cudaEventRecord(event, first));
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(first) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
  gate.open();
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
  OK(cudaStreamQuery(second));
  OK(cudaEventDestroy(event));
  CHECK(cudaEventRecord(event, first) == cudaErrorInvalidResourceHandle);
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
  CHECK(cudaStreamSynchronize(first) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("cuda runtime twin: the default stream waits for blocking streams only") {
  const auto is_wrong = [](unsigned flags) {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream(flags);
    int* memory = device_ints();
    OK(cudaMemset(memory, 0, kBytes));
    OK(cudaDeviceSynchronize());
    {
      Gate gate;
      OK(cudaMemsetAsync(memory, 0, kBytes, stream));
      OK(add(memory, 1, nullptr));
      OK(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, stream));
      gate.open();
      OK(cudaDeviceSynchronize());
    }
    const bool wrong = values_of(memory) != kOnes;
    OK(cudaFree(memory));
    OK(cudaStreamDestroy(stream));
    return wrong;
  };
  CHECK(count_orders_with([&] { return is_wrong(cudaStreamDefault); }) == 0);
  CHECK(count_orders_with([&] { return is_wrong(cudaStreamNonBlocking); }) > 0);
}

TEST_CASE("cuda runtime twin: without streams, launches run at once and throw") {
  std::vector<int> values(kCount, 0);
  OK(add(values.data(), 1, nullptr));
  CHECK(values == kOnes);
  CHECK_THROWS(break_device(values.data(), nullptr));
  OK(cudaDeviceSynchronize());
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event));
  OK(cudaEventQuery(event));
  OK(cudaEventDestroy(event));
}

TEST_CASE("cuda runtime twin: time passes between timed events") {
  const simt::Runtime runtime;
  cudaEvent_t start = nullptr, end = nullptr;
  const cudaEvent_t untimed = make_event();
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  OK(cudaEventRecord(start));
  OK(cudaEventRecord(untimed));
  {
    Gate gate;
    OK(cudaEventRecord(end));
    CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
    gate.open();
    OK(cudaEventSynchronize(end));
  }
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {start, end, untimed}) OK(cudaEventDestroy(event));
}

TEST_CASE("cuda runtime twin: a host function may not call CUDA") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream();
  cudaError_t error = cudaSuccess;
  OK(cudaLaunchHostFunc(
      stream, [](void* result) { *static_cast<cudaError_t*>(result) = cudaDeviceSynchronize(); },
      &error));
  OK(cudaStreamSynchronize(stream));
  CHECK(error == cudaErrorNotPermitted);
  OK(cudaStreamDestroy(stream));
}

// ---- memory ----

TEST_CASE("cuda runtime twin: fresh memory is NaN") {
  float* memory = nullptr;
  OK(cudaMalloc(&memory, 4));
  CHECK(std::isnan(*memory));
  OK(cudaFree(memory));
}

TEST_CASE("cuda runtime twin: pinned memory is read when its turn comes, pageable at the call") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream();
  int *staging = pinned_ints(1), *from_pinned = device_ints(), *from_pageable = device_ints();
  std::vector<int> pageable(kCount, 1);
  {
    Gate gate;
    OK(cudaMemcpyAsync(from_pinned, staging, kBytes, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(from_pageable, pageable.data(), kBytes, cudaMemcpyHostToDevice, stream));
    std::fill_n(staging, kCount, 2);
    pageable.assign(kCount, 2);
    gate.open();
    OK(cudaStreamSynchronize(stream));
  }
  CHECK(values_of(from_pinned) == std::vector<int>(kCount, 2));
  CHECK(values_of(from_pageable) == kOnes);

  std::vector<int> registered(kCount, 1);
  OK(cudaHostRegister(registered.data(), kBytes, cudaHostRegisterDefault));
  CHECK(cudaHostRegister(registered.data() + 1, 4, 0) == cudaErrorHostMemoryAlreadyRegistered);
  {
    Gate gate;
    OK(cudaMemcpyAsync(registered.data(), from_pinned, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(registered == kOnes);
    gate.open();
    OK(cudaStreamSynchronize(stream));
  }
  CHECK(registered[7] == 2);
  OK(cudaHostUnregister(registered.data()));
  CHECK(cudaHostUnregister(registered.data()) == cudaErrorHostMemoryNotRegistered);
  OK(cudaFreeHost(staging));
  OK(cudaFree(from_pinned));
  OK(cudaFree(from_pageable));
  OK(cudaStreamDestroy(stream));
}

TEST_CASE("cuda runtime twin: staging memory that is overwritten too early shows in some order") {
  const auto is_wrong = [] {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream();
    int *staging = pinned_ints(1), *memory = device_ints();
    OK(cudaMemcpyAsync(memory, staging, kBytes, cudaMemcpyHostToDevice, stream));
    std::fill_n(staging, kCount, 2);
    OK(cudaStreamSynchronize(stream));
    const bool wrong = values_of(memory) != kOnes;
    OK(cudaFreeHost(staging));
    OK(cudaFree(memory));
    OK(cudaStreamDestroy(stream));
    return wrong;
  };
  CHECK(count_orders_with(is_wrong) > 0);
}

TEST_CASE("cuda runtime twin: rows are copied between pitches") {
  const simt::Runtime runtime;
  std::vector<int> rows(12), back(6, -1);  // [3, 4] and [3, 2]
  std::iota(rows.begin(), rows.end(), 0);
  int* memory = nullptr;
  OK(cudaMalloc(&memory, 3 * 3 * 4));
  OK(cudaMemcpy2D(memory, 12, rows.data(), 16, 8, 3, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2D(back.data(), 8, memory, 12, 8, 3, cudaMemcpyDeviceToHost));
  CHECK(back == std::vector<int>{0, 1, 4, 5, 8, 9});
  CHECK(cudaMemcpy2D(memory, 4, rows.data(), 16, 8, 3, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidPitchValue);
  OK(cudaFree(memory));
}

TEST_CASE("cuda runtime twin: copies know whose memory it is") {
  const simt::Runtime runtime;
  int *memory = device_ints(), *pinned = pinned_ints(1);
  std::vector<int> host(kCount);
  for (const cudaMemcpyKind kind : {cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice}) {
    CHECK(cudaMemcpy(memory, host.data(), kBytes, kind) == cudaErrorInvalidValue);
  }
  CHECK(cudaMemcpy(memory + 1, host.data(), kBytes, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, kBytes) == cudaErrorInvalidValue);
  int* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
  CHECK(mapped == pinned);
  CHECK(cudaHostGetDevicePointer(&mapped, host.data(), 0) == cudaErrorInvalidValue);
  cudaPointerAttributes attributes{};
  OK(cudaPointerGetAttributes(&attributes, memory + 5));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  OK(cudaFreeHost(pinned));
  OK(cudaFree(memory));
}

TEST_CASE("cuda runtime twin: memory has an end, and what is live is counted") {
  const simt::Runtime runtime({.memory_bytes = 1 << 20, .num_multiprocessors = 4});
  const simt::LiveObjects before = simt::live_objects();
  void *first = nullptr, *second = nullptr;
  OK(cudaMalloc(&first, 1 << 19));
  CHECK(cudaMalloc(&second, (1 << 19) + 1) == cudaErrorMemoryAllocation);
  CHECK(second == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  CHECK(free == 1 << 19);
  CHECK(total == 1 << 20);
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  CHECK(properties.totalGlobalMem == total);
  CHECK(properties.multiProcessorCount == 4);
  CHECK(simt::live_objects().allocations == before.allocations + 1);
  CHECK(simt::live_objects().device_bytes == 1 << 19);
  OK(cudaFree(first));
  CHECK(cudaFree(first) == cudaErrorInvalidValue);
  OK(cudaFree(nullptr));
  CHECK(simt::live_objects() == before);
}

// ---- graphs ----

TEST_CASE("cuda runtime twin: a graph replays its kernels with the arguments of the capture") {
  simt::in_several_orders([] {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream();
    int *memory = device_ints(), *staging = pinned_ints(10), *result = pinned_ints(0);
    int number = 1;
    const std::uint64_t launched = simt::kernels_launched();
    const cudaGraph_t graph = capture(stream, [&] {
      OK(cudaMemcpyAsync(memory, staging, kBytes, cudaMemcpyHostToDevice, stream));
      OK(add(memory, number, stream));
      number = 100;
      OK(simt::enqueue(stream, [memory] { memory[0] *= 2; }));
      OK(cudaMemcpyAsync(result, memory, kBytes, cudaMemcpyDeviceToHost, stream));
    });
    CHECK(simt::kernels_launched() == launched);
    CHECK(num_nodes(graph) == 4);
    const cudaGraphExec_t exec = instantiate(graph);
    OK(cudaGraphDestroy(graph));
    for (const int start : {20, 30}) {
      std::fill_n(staging, kCount, start);
      OK(cudaGraphLaunch(exec, stream));
      OK(cudaStreamSynchronize(stream));
      CHECK(result[0] == 2 * (start + 1));
      CHECK(result[kCount - 1] == start + 1);
    }
    CHECK(simt::kernels_launched() == launched + 4);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaFree(memory));
    OK(cudaFreeHost(staging));
    OK(cudaFreeHost(result));
    OK(cudaStreamDestroy(stream));
  });
}

TEST_CASE("cuda runtime twin: a capture forks and joins by events") {
  const auto is_wrong = [](bool has_fork) {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream(), side = make_stream();
    const cudaEvent_t fork = make_event(), join = make_event();
    int *memory = device_ints(), *copy = device_ints();
    const cudaGraph_t graph = capture(stream, [&] {
      if (!has_fork) OK(cudaEventRecord(fork, stream));
      OK(cudaMemsetAsync(memory, 0, kBytes, stream));
      OK(add(memory, 1, stream));
      if (has_fork) OK(cudaEventRecord(fork, stream));
      OK(cudaStreamWaitEvent(side, fork));
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      OK(cudaStreamIsCapturing(side, &status));
      CHECK(status == cudaStreamCaptureStatusActive);
      OK(cudaMemcpyAsync(copy, memory, kBytes, cudaMemcpyDeviceToDevice, side));
      OK(cudaEventRecord(join, side));
      OK(cudaStreamWaitEvent(stream, join));
    });
    CHECK(num_nodes(graph) == 3);
    const cudaGraphExec_t exec = instantiate(graph);
    OK(cudaMemsetAsync(memory, 0, kBytes, stream));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    const bool wrong = values_of(copy) != kOnes;
    OK(cudaStreamSynchronize(side));  // captures no more
    for (const cudaEvent_t event : {fork, join}) OK(cudaEventDestroy(event));
    for (const cudaStream_t each : {stream, side}) OK(cudaStreamDestroy(each));
    for (int* each : {memory, copy}) OK(cudaFree(each));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
    return wrong;
  };
  CHECK(count_orders_with([&] { return is_wrong(true); }) == 0);
  CHECK(count_orders_with([&] { return is_wrong(false); }) > 0);
}

TEST_CASE("cuda runtime twin: an update replaces arguments and refuses other shapes") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream();
  int* memory = device_ints();
  const auto graph_of = [&](int number, bool has_copy) {
    return capture(stream, [&] {
      OK(cudaMemsetAsync(memory, 0, kBytes, stream));
      if (has_copy) {
        OK(cudaMemcpyAsync(memory, memory + 8, 16, cudaMemcpyDeviceToDevice, stream));
      } else {
        OK(add(memory, number, stream));
      }
    });
  };
  const cudaGraph_t graph = graph_of(7, false), next = graph_of(1, false), other = graph_of(0, true);
  const cudaGraphExec_t exec = instantiate(graph);
  cudaGraphExecUpdateResultInfo result{};
  CHECK(cudaGraphExecUpdate(exec, other, &result) == cudaErrorGraphExecUpdateFailure);
  CHECK(result.result == cudaGraphExecUpdateErrorNodeTypeChanged);
  {
    Gate gate;
    OK(cudaGraphLaunch(exec, stream));  // in flight: not changed by the update
    OK(cudaGraphExecUpdate(exec, next, &result));
    gate.open();
  }
  OK(cudaStreamSynchronize(stream));
  CHECK(values_of(memory)[0] == 7);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(values_of(memory) == kOnes);
  for (const cudaGraph_t each : {graph, next, other}) OK(cudaGraphDestroy(each));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaFree(memory));
  OK(cudaStreamDestroy(stream));
}

TEST_CASE("cuda runtime twin: what a capture can't hold spoils it") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream(), side = make_stream();
  const cudaEvent_t event = make_event();
  int* memory = device_ints();
  std::vector<int> pageable(kCount);
  void* more = nullptr;
  const auto error_in = [&](auto call, cudaStreamCaptureMode mode) {
    OK(cudaStreamBeginCapture(stream, mode));
    const cudaError_t error = call();
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(stream, &graph);
    CHECK(end == (error == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    CHECK((graph == nullptr) == (error != cudaSuccess));
    if (graph != nullptr) OK(cudaGraphDestroy(graph));
    return error;
  };
  constexpr auto kLocal = cudaStreamCaptureModeThreadLocal;
  constexpr auto kRelaxed = cudaStreamCaptureModeRelaxed;
  const auto allocate = [&] { return cudaMalloc(&more, 4); };
  CHECK(error_in(allocate, kLocal) == cudaErrorStreamCaptureUnsupported);
  CHECK(error_in(allocate, kRelaxed) == cudaSuccess);
  OK(cudaFree(more));
  const auto allocate_elsewhere = [&] {
    return std::async(std::launch::async, allocate).get();
  };
  CHECK(error_in(allocate_elsewhere, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(error_in(allocate_elsewhere, kLocal) == cudaSuccess);
  OK(cudaFree(more));
  CHECK(error_in([&] { return cudaStreamSynchronize(stream); }, kRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaStreamQuery(stream); }, kRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaDeviceSynchronize(); }, kRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaStreamSynchronize(side); }, kLocal) == cudaSuccess);
  CHECK(error_in([&] { return cudaEventQuery(event); }, kLocal) ==
        cudaErrorStreamCaptureUnsupported);
  OK(cudaEventRecord(event, side));
  CHECK(error_in([&] { return cudaStreamWaitEvent(stream, event); }, kLocal) ==
        cudaErrorStreamCaptureIsolation);
  const auto query_captured = [&] {
    OK(cudaEventRecord(event, stream));
    return cudaEventQuery(event);
  };
  CHECK(error_in(query_captured, kRelaxed) == cudaErrorCapturedEvent);
  CHECK(cudaStreamWaitEvent(side, event) == cudaErrorCapturedEvent);
  const auto copy_pageable = [&] {
    return cudaMemcpyAsync(memory, pageable.data(), kBytes, cudaMemcpyHostToDevice, stream);
  };
  CHECK(error_in(copy_pageable, kLocal) == cudaErrorStreamCaptureUnsupported);
  OK(cudaEventDestroy(event));
  OK(cudaFree(memory));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(side));
}

TEST_CASE("cuda runtime twin: a capture ends where and how it began") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream(cudaStreamDefault), side = make_stream();
  const cudaEvent_t event = make_event();
  int* memory = device_ints();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(side, event));
  OK(add(memory, 1, side));
  CHECK(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(std::async(std::launch::async, [&] { return cudaStreamEndCapture(stream, &graph); }).get() ==
        cudaErrorStreamCaptureWrongThread);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  OK(cudaStreamSynchronize(side));

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(add(memory, 1, nullptr) == cudaErrorStreamCaptureImplicit);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  OK(cudaEventDestroy(event));
  OK(cudaFree(memory));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(side));
}

// ---- failures ----

TEST_CASE("cuda runtime twin: what a kernel does wrong breaks the device") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream();
  int *memory = device_ints(), *result = pinned_ints(5);
  OK(break_device(memory, stream));
  cudaMemcpyAsync(result, memory, kBytes, cudaMemcpyDeviceToHost, stream);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(result[0] == 5);  // nothing ran after it
  CHECK(add(memory, 1, stream) == cudaErrorIllegalAddress);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaFree(memory) == cudaErrorIllegalAddress);
  CHECK(cudaFreeHost(result) == cudaErrorIllegalAddress);
  CHECK(simt::last_kernel_error().find("threads wait for each other") != std::string::npos);
  simt::reset_device();
  CHECK(simt::live_objects().allocations == 0);
  OK(cudaStreamDestroy(stream));
  OK(cudaGetLastError());
}

TEST_CASE("cuda runtime twin: ends with an error that nobody asks for" * doctest::skip()) {
  const simt::Runtime runtime;
  int* memory = device_ints();
  CHECK(break_device(memory, nullptr) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorIllegalAddress);
}

TEST_CASE("cuda runtime twin: a kernel's error that nobody asks for ends the process") {
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --no-skip -tc='*ends with an error that nobody asks for' 2>&1";
  FILE* output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string text;
  for (int character = fgetc(output); character != EOF; character = fgetc(output)) {
    text += static_cast<char>(character);
  }
  CHECK(pclose(output) != 0);
  INFO(text);
  CHECK(text.find("nobody asked for last_kernel_error(): block (0, 0, 0): threads wait") !=
        std::string::npos);
}

TEST_CASE("cuda runtime twin: an operation fails on command, in a graph too") {
  for (const std::uint64_t failing : {1, 2, 3, 4}) {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream();
    int* memory = device_ints();
    OK(cudaMemset(memory, 0, kBytes));
    const cudaGraph_t graph = capture(stream, [&] {
      OK(add(memory, 1, stream));
      OK(add(memory, 2, stream));
    });
    const cudaGraphExec_t exec = instantiate(graph);
    OK(cudaDeviceSynchronize());
    simt::fail_operation(failing, cudaErrorECCUncorrectable);
    cudaMemsetAsync(memory, 0, kBytes, stream);
    cudaGraphLaunch(exec, stream);
    CHECK(cudaStreamSynchronize(stream) ==
          (failing == 4 ? cudaSuccess : cudaErrorECCUncorrectable));
    CHECK(*memory == (failing == 4 ? 3 : failing == 3 ? 1 : 0));
    CHECK(simt::last_kernel_error().empty());
    simt::reset_device();
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaFree(memory));
    OK(cudaStreamDestroy(stream));
  }
}

TEST_CASE("cuda runtime twin: a device that hangs goes on, or is reset") {
  const simt::Runtime runtime;
  const cudaStream_t stream = make_stream();
  std::atomic<int> runs = 0;
  simt::hang();
  OK(simt::enqueue(stream, [&] { ++runs; }));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  simt::go_on();
  OK(cudaStreamSynchronize(stream));
  CHECK(runs == 1);
  simt::hang();
  OK(simt::enqueue(stream, [&] { ++runs; }));
  simt::reset_device();
  OK(cudaStreamSynchronize(stream));
  CHECK(runs == 1);
  OK(cudaStreamDestroy(stream));
}

TEST_CASE("cuda runtime twin: who polls memory sees what the stream wrote") {
  simt::in_several_orders([] {
    const simt::Runtime runtime;
    const cudaStream_t stream = make_stream();
    std::atomic<int> word = 0;
    OK(simt::enqueue(stream, [&] { word = 1; }));
    while (word == 0) std::this_thread::yield();  // no call of CUDA's
    OK(cudaStreamDestroy(stream));
  });
}
