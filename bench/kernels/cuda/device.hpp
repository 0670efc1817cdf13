// SPDX-License-Identifier: Apache-2.0
// Memory with random contents and time measured on the device: what the
// benchmarks of a GPU share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/data_type.hpp"

namespace troupe::bench {

struct FreeDevice {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
struct FreePinned {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
using DeviceBuffer = std::unique_ptr<std::byte, FreeDevice>;
using PinnedBuffer = std::unique_ptr<std::byte, FreePinned>;

// All throw CudaError, and what they give is filled when they return. Every byte of
// device_buffer() is 0xFF: NaN in all types.
DeviceBuffer device_buffer(std::size_t size_bytes);
// From -scale to scale: products of zeros would take less power, and time.
DeviceBuffer random_buffer(DataType type, std::size_t count, float scale = 1.0F);
// Zeros, which the device finds at the same address.
PinnedBuffer pinned_buffer(std::size_t size_bytes);

template <typename T>
DeviceBuffer copy_of(const std::vector<T>& values) {
  DeviceBuffer memory = device_buffer(values.size() * sizeof(T));
  CUDA_CHECK(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());  // pageable memory is on its way when it returns
  return memory;
}
template <typename T, typename Buffer>
T* as(const Buffer& buffer) {
  return reinterpret_cast<T*>(buffer.get());
}

class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Work that `queue` puts on a stream, captured, not run. Kernels were run before.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& queue);
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { CUDA_CHECK(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

// Seconds on the device between two events around what `queue` puts on the
// stream.
double seconds_between_events(cudaStream_t stream, const std::function<void()>& queue);

// Times what can be captured into a graph, as programs run in graphs.
class Stopwatch {
 public:
  explicit Stopwatch(bool is_tiny) : is_tiny_(is_tiny) {}

  cudaStream_t stream() const { return stream_; }
  // Seconds of one run: the median of replays of a graph of several runs. run(i)
  // starts the i-th on stream(); what it reads should change with i until it is
  // more than the caches hold.
  double seconds_of(const std::function<void(std::size_t i)>& run) const;

 private:
  Stream stream_;
  bool is_tiny_;
};

double median(std::vector<double> values);

}  // namespace troupe::bench
