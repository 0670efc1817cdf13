// SPDX-License-Identifier: Apache-2.0
// CUDA's memory on the CPU: who may read what, when it is read, and where it ends.
#include "tests/simt/runtime/runtime.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/gpu/cuda/runtime_twin.hpp"

using namespace troupe;
using namespace troupe::test;

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
  CHECK(cudaMemcpy2D(memory, 4, rows.data(), 16, 8, 3, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
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

TEST_CASE("cuda runtime twin: contexts, code and graphs take memory that nobody allocates") {
  constexpr std::size_t kKiB = 1024;
  const simt::Runtime runtime(
      {.memory_bytes = 1000 * kKiB,
       .costs = {.context_bytes = 100 * kKiB, .kernel_bytes = 200 * kKiB, .graph_bytes = 300 * kKiB}});
  const auto free_now = [] {
    std::size_t free = 0, total = 0;
    OK(cudaMemGetInfo(&free, &total));
    CHECK(total == 1000 * kKiB);
    return free / kKiB;
  };
  CHECK(free_now() == 900);
  const cudaStream_t stream = make_stream();
  int* values = device_ints();  // 256 bytes
  OK(add(values, 1, stream));
  CHECK(free_now() == 699);
  OK(add(values, 1, stream));  // its code is there
  CHECK(free_now() == 699);
  const cudaGraph_t graph = capture(stream, [&] { OK(add(values, 1, stream)); });
  const cudaGraphExec_t first = instantiate(graph), second = instantiate(graph);
  CHECK(free_now() == 99);
  cudaGraphExec_t third = nullptr;
  CHECK(cudaGraphInstantiate(&third, graph, 0) == cudaErrorMemoryAllocation);
  OK(cudaGraphExecDestroy(first));
  CHECK(free_now() == 399);
  CHECK(simt::live_objects().device_bytes == 256);  // these are allocations
  void *rest = nullptr, *more = nullptr;
  OK(cudaMalloc(&rest, 300 * kKiB));
  CHECK(cudaMalloc(&more, 100 * kKiB) == cudaErrorMemoryAllocation);
  CHECK(break_device(values, stream) ==
        cudaErrorMemoryAllocation);  // another kernel, whose code finds no room
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(second));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(rest));
  OK(cudaFree(values));
  OK(cudaStreamDestroy(stream));
  (void)cudaGetLastError();
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
