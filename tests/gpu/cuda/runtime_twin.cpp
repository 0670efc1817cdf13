// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/cuda/runtime_twin.hpp"

#include <algorithm>

#include "tests/simt/interpreter/launch.hpp"

namespace troupe::test {
namespace {

__global__ void add_kernel(int* values, int count, int number) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += number;
}

__global__ void broken_kernel(int* values) {
  if (threadIdx.x < 3) __syncthreads();
  values[threadIdx.x] = 1;
}

}  // namespace

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

cudaStream_t make_stream(unsigned flags) {
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

Gate::Gate() : stream_(make_stream()) {
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

Gate::~Gate() {
  if (!was_opened_) open();
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Gate::open() {
  was_opened_ = true;
  is_open_.set_value();
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

}  // namespace troupe::test
