// SPDX-License-Identifier: Apache-2.0
// CUDA's errors on the CPU: kernels that go wrong, failures on command, hangs.
#include "tests/simt/runtime/runtime.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/gpu/cuda/runtime_twin.hpp"

using namespace troupe;
using namespace troupe::test;

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
    CHECK(cudaStreamSynchronize(stream) == (failing == 4 ? cudaSuccess : cudaErrorECCUncorrectable));
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
