// SPDX-License-Identifier: Apache-2.0
// CUDA's streams and events on the CPU: that they keep CUDA's promises of order, and no
// more than those.
#include "tests/simt/runtime/runtime.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/gpu/cuda/runtime_twin.hpp"
#include "tests/simt/interpreter/launch.hpp"

using namespace troupe;
using namespace troupe::test;

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
      stream, [](void* result) { *static_cast<cudaError_t*>(result) = cudaDeviceSynchronize(); }, &error));
  OK(cudaStreamSynchronize(stream));
  CHECK(error == cudaErrorNotPermitted);
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

TEST_CASE("cuda runtime twin: streams, events and memory belong to the GPU that was current") {
  const simt::Runtime runtime({.num_gpus = 2});
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  std::size_t free_before = 0, free = 0, total = 0;
  OK(cudaMemGetInfo(&free_before, &total));
  OK(cudaSetDevice(1));
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  int* values = device_ints();
  OK(add(values, 1, stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaSetDevice(0));
  CHECK(add(values, 1, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  OK(cudaMemGetInfo(&free, &total));
  CHECK(free == free_before);
  int of_other_thread = -1;
  std::thread([&] { OK(cudaGetDevice(&of_other_thread)); }).join();
  CHECK(of_other_thread == 0);
  const cudaStream_t other = make_stream();
  OK(cudaStreamWaitEvent(other, event, 0));  // between GPUs, as in CUDA
  OK(cudaStreamSynchronize(other));
  OK(cudaStreamSynchronize(stream));
  OK(cudaFree(values));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(other));
  (void)cudaGetLastError();
}
