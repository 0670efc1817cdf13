// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/device.hpp"

#include <algorithm>

#include "bench/kernels/cuda/probe_kernels.hpp"

namespace troupe::bench {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

DeviceBuffer device_buffer(std::size_t size_bytes) {
  const std::size_t size = std::max<std::size_t>(size_bytes, 16);
  std::byte* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, size));
  DeviceBuffer buffer(memory);
  CUDA_CHECK(cudaMemset(memory, 0xFF, size));
  CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for this one
  return buffer;
}

DeviceBuffer random_buffer(DataType type, std::size_t count, float scale) {
  DeviceBuffer buffer = device_buffer(count * size_of(type));
  launch_fill({.to = buffer.get(), .type = type, .count = count, .scale = scale}, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  return buffer;
}

PinnedBuffer pinned_buffer(std::size_t size_bytes) {
  std::byte* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  std::fill_n(memory, size_bytes, std::byte{0});
  return PinnedBuffer(memory);
}

double seconds_between_events(cudaStream_t stream, const std::function<void()>& queue) {
  const Event begin, end;
  CUDA_CHECK(cudaEventRecord(begin, stream));
  queue();
  CUDA_CHECK(cudaEventRecord(end, stream));
  CUDA_CHECK(cudaEventSynchronize(end));
  float milliseconds = 0.0F;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds * 1e-3;
}

Graph::Graph(cudaStream_t stream, const std::function<void()>& queue) {
  cudaGraph_t captured = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    queue();
  } catch (...) {  // a stream that captures for ever can do nothing else
    if (cudaStreamEndCapture(stream, &captured) == cudaSuccess) cudaGraphDestroy(captured);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &captured));
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  CUDA_CHECK(cudaGraphInstantiate(&graph_, graph.get(), 0));
}

double Stopwatch::seconds_of(const std::function<void(std::size_t i)>& run) const {
  constexpr double kGraphSeconds = 0.005;
  const std::size_t num_replays = is_tiny_ ? 1 : 9;
  std::size_t next = 0;
  const auto once = [&] { run(next++); };
  once();  // loads the kernels
  const double estimate = seconds_between_events(stream_, once);
  const auto length = static_cast<std::size_t>(
      is_tiny_ ? 1.0 : std::clamp(kGraphSeconds / std::max(estimate, 1e-7), 3.0, 400.0));

  const Graph graph(stream_, [&] {
    for (std::size_t i = 0; i < length; ++i) once();
  });
  const auto replay = [&] { graph.launch(stream_); };
  replay();  // brings the clocks up
  std::vector<double> seconds;
  for (std::size_t i = 0; i < num_replays; ++i) {
    seconds.push_back(seconds_between_events(stream_, replay) / static_cast<double>(length));
  }
  return median(std::move(seconds));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace troupe::bench
