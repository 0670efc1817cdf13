// SPDX-License-Identifier: Apache-2.0
// CUDA's graphs on the CPU: what a capture holds, and what it refuses.
#include "tests/simt/runtime/runtime.hpp"

#include <doctest/doctest.h>

#include <future>
#include <vector>

#include "tests/gpu/cuda/runtime_twin.hpp"
#include "tests/simt/interpreter/launch.hpp"

using namespace troupe;
using namespace troupe::test;

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
  const auto allocate_elsewhere = [&] { return std::async(std::launch::async, allocate).get(); };
  CHECK(error_in(allocate_elsewhere, cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
  CHECK(error_in(allocate_elsewhere, kLocal) == cudaSuccess);
  OK(cudaFree(more));
  CHECK(error_in([&] { return cudaStreamSynchronize(stream); }, kRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaStreamQuery(stream); }, kRelaxed) == cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaDeviceSynchronize(); }, kRelaxed) == cudaErrorStreamCaptureUnsupported);
  CHECK(error_in([&] { return cudaStreamSynchronize(side); }, kLocal) == cudaSuccess);
  CHECK(error_in([&] { return cudaEventQuery(event); }, kLocal) == cudaErrorStreamCaptureUnsupported);
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
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
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
