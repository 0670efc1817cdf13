// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_timer.hpp"

#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "tests/simt/runtime/runtime.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace {

struct Fixture {
  Fixture() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~Fixture() { cudaStreamDestroy(stream); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  GemmRun counting() {
    return [this](std::size_t i) {
      started.push_back(i);
      REQUIRE(simt::enqueue(stream, [this] { ++num_run; }) == cudaSuccess);
    };
  }
  bool is_capturing() const {
    cudaStreamCaptureStatus status{};
    REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
    return status != cudaStreamCaptureStatusNone;
  }

  simt::Runtime runtime;
  cudaStream_t stream = nullptr;
  std::vector<std::size_t> started;
  std::size_t num_run = 0;
};

}  // namespace

TEST_CASE("product timer: trains are captured once, with growing numbers, and replayed") {
  Fixture fixture;
  const auto objects = simt::live_objects();
  {
    GemmTimer timer(fixture.stream);
    const auto microseconds = timer(fixture.counting());
    REQUIRE(microseconds);
    CHECK(*microseconds >= 0.0);
    // Two alone, then one train: its warm-up and three measurements.
    REQUIRE(fixture.started.size() > 2);
    const std::size_t length = fixture.started.size() - 2;
    CHECK(fixture.num_run == 2 + 4 * length);
    for (std::size_t i = 0; i < length; ++i) CHECK(fixture.started[2 + i] == i);
  }
  CHECK(simt::live_objects() == objects);
}

TEST_CASE("product timer: what cannot run has no time, and the stream is as before") {
  Fixture fixture;
  GemmTimer timer(fixture.stream);
  CHECK_FALSE(timer([](std::size_t) { throw CublasError("not supported"); }));
  CHECK_FALSE(timer([](std::size_t) { throw std::invalid_argument("does not fit"); }));
  const auto objects = simt::live_objects();
  int calls = 0;
  CHECK_FALSE(timer([&](std::size_t) {
    if (++calls == 3) throw CublasError("not while capturing");
  }));
  CHECK(calls == 3);
  CHECK_FALSE(fixture.is_capturing());
  CHECK(simt::live_objects() == objects);
  CHECK(timer(fixture.counting()));
}

TEST_CASE("product timer: a broken device is not taken for a slow kernel") {
  Fixture fixture;
  GemmTimer timer(fixture.stream);
  simt::fail_operation(4);
  CHECK_THROWS_AS(timer(fixture.counting()), CudaError);
  simt::reset_device();
}

TEST_CASE("product timer: the default stream is refused") {
  CHECK_THROWS_AS(GemmTimer(nullptr), std::invalid_argument);
}
