// SPDX-License-Identifier: Apache-2.0
// What tests of CUDA's runtime on the CPU share: small kernels, streams, memory,
// a gate that holds the device, and captures.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "tests/simt/runtime/runtime.hpp"

#define OK(call) REQUIRE((call) == cudaSuccess)

namespace troupe::test {

inline constexpr int kCount = 64;
inline constexpr std::size_t kBytes = kCount * sizeof(int);
inline const std::vector<int> kOnes(kCount, 1);

// Launches a kernel that adds to kCount values.
cudaError_t add(int* values, int number, cudaStream_t stream);
// Launches one whose threads wait for each other for ever.
cudaError_t break_device(int* values, cudaStream_t stream);

int* device_ints();
int* pinned_ints(int value);
cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking);
cudaEvent_t make_event();
std::vector<int> values_of(const int* memory);

// Nothing else runs on the device until it is opened. It stays until the host function
// has returned, which reads it.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open();

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

cudaGraphExec_t instantiate(cudaGraph_t graph);
std::size_t num_nodes(cudaGraph_t graph);

}  // namespace troupe::test
