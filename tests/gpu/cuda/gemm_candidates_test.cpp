// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_candidates.hpp"

#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <chrono>
#include <optional>
#include <vector>

#include "gpu/cuda/gemm/gemm_timer.hpp"
#include "tests/simt/runtime/runtime.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace gemm_candidates_test {
namespace {

constexpr std::size_t kWorkspaceBytes = 1 << 20;
const GemmShape kShape{.num_tokens = 7,
                       .num_outputs = 16,
                       .depth = 64,
                       .type = DataType::kF32,
                       .c_type = DataType::kF32,
                       .has_bias = true};

struct Fixture {
  Fixture() {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    gemms.emplace(memory(kWorkspaceBytes, 0), kWorkspaceBytes);
    scratch = {.memory = memory(gemm_scratch_bytes(kShape), 0x3C), .size_bytes = gemm_scratch_bytes(kShape)};
    weights = {memory(16 * 64 * 4, 0x3C), memory(16 * 64 * 4, 0x3D)};
  }
  ~Fixture() {
    gemms.reset();
    for (void* const block : blocks) cudaFree(block);
    cudaStreamDestroy(stream);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::byte* memory(std::size_t size_bytes, int value) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, size_bytes) == cudaSuccess);
    REQUIRE(cudaMemset(block, value, size_bytes) == cudaSuccess);
    blocks.push_back(block);
    return static_cast<std::byte*>(block);
  }
  std::vector<GemmCandidate> candidates() {
    return gemm_candidates(*gemms, kShape, scratch, weights, stream);
  }

  simt::Runtime runtime;
  cudaStream_t stream = nullptr;
  std::vector<void*> blocks;
  std::optional<CublasGemms> gemms;
  GemmScratch scratch;
  std::vector<const void*> weights;
};

}  // namespace

TEST_CASE("product candidates: are measured on the device, and the choice is taken") {
  Fixture fixture;
  GemmTimer timer(fixture.stream);
  GemmChoices choices;
  const auto report = autotune_gemms({{kShape, 1.0}},
                                     {.candidates = [&](const GemmShape&) { return fixture.candidates(); },
                                      .clock = [&](const GemmRun& run) { return timer(run); },
                                      .now = [] { return std::chrono::steady_clock::now(); }},
                                     choices);
  CHECK(report.num_measured == 1);
  REQUIRE(choices.contains(bin_of(kShape)));
  CHECK(fixture.gemms->use(kShape, choices.at(bin_of(kShape))));
}

TEST_CASE("product candidates: runs take turns with the weights and stay in their memory") {
  Fixture fixture;
  const auto candidates = fixture.candidates();
  REQUIRE_FALSE(candidates.empty());
  const std::size_t c_bytes = 8 * 16 * sizeof(float);  // of the bin's eight tokens
  const auto c_after = [&](std::size_t i) {
    candidates.front().run(i);
    std::vector<float> c(8 * 16);
    REQUIRE(cudaStreamSynchronize(fixture.stream) == cudaSuccess);
    REQUIRE(cudaMemcpy(c.data(), fixture.scratch.memory + fixture.scratch.size_bytes - c_bytes, c_bytes,
                       cudaMemcpyDeviceToHost) == cudaSuccess);
    return c;
  };
  CHECK(c_after(0) == c_after(2));
  CHECK(c_after(0) != c_after(1));
}

TEST_CASE("product candidates: few tokens in 16 bits are one, and compute the same") {
  Fixture fixture;
  GemmShape shape{.num_tokens = 8, .num_outputs = 16, .depth = 64, .c_type = DataType::kF32};
  fixture.scratch = {.memory = fixture.memory(16384, 0x3C), .size_bytes = 16384};
  const auto candidates_of_shape = [&] {
    return gemm_candidates(*fixture.gemms, shape, fixture.scratch, fixture.weights, fixture.stream);
  };
  const auto has_few = [&] {
    const auto candidates = candidates_of_shape();
    return !candidates.empty() && candidates.back().choice.kernel == GemmKernel::kFewTokens;
  };
  CHECK(has_few());
  std::vector<std::vector<float>> results;
  for (const auto& candidate : candidates_of_shape()) {
    std::vector<float>& c = results.emplace_back(8 * 16);
    const std::size_t c_offset = gemm_scratch_bytes(shape) - c.size() * sizeof(float);
    candidate.run(0);
    REQUIRE(cudaStreamSynchronize(fixture.stream) == cudaSuccess);
    REQUIRE(cudaMemcpy(c.data(), fixture.scratch.memory + c_offset, c.size() * sizeof(float),
                       cudaMemcpyDeviceToHost) == cudaSuccess);
    for (const float value : c) CHECK(value == doctest::Approx(results.front().front()));
  }
  shape.adds = true;
  CHECK_FALSE(has_few());
  shape.adds = false;
  shape.activation = GemmActivation::kGelu;
  CHECK_FALSE(has_few());
  shape.activation = GemmActivation::kNone;
  shape.num_tokens = 65;
  shape.depth = 8;
  CHECK_FALSE(candidates_of_shape().empty());
  CHECK_FALSE(has_few());
  CHECK(fixture.candidates().back().choice.kernel == GemmKernel::kCublasLt);  // f32
}

TEST_CASE("product candidates: too little memory or no weights are none") {
  Fixture fixture;
  --fixture.scratch.size_bytes;
  CHECK(fixture.candidates().empty());
  ++fixture.scratch.size_bytes;
  fixture.weights.clear();
  CHECK(fixture.candidates().empty());
}

TEST_CASE("product candidates: choices that cuBLASLt refuses are forgotten, others are kept") {
  Fixture fixture;
  const GemmChoice good = fixture.gemms->candidates(kShape, 1).front();
  GemmShape other = bin_of(kShape), impossible = other, few = other;
  other.num_outputs = 32;
  impossible.depth = 0;
  few.num_tokens = 1;
  GemmChoice damaged = good;
  damaged.algorithm[0] ^= 1;
  GemmChoices choices{{bin_of(kShape), good}, {other, damaged}, {few, {.kernel = GemmKernel::kFewTokens}}};
  CHECK(use_choices(*fixture.gemms, choices) == 1);
  CHECK(choices.size() == 2);
  CHECK_FALSE(choices.contains(other));
  choices[impossible] = good;  // a file may say anything
  CHECK(use_choices(*fixture.gemms, choices) == 1);
}

TEST_CASE("product device: is this one, with this library") {
  const simt::Runtime runtime;
  const GemmDevice device = gemm_device(0, kWorkspaceBytes);
  CHECK_FALSE(device.name.empty());
  CHECK(device.compute_capability == 90);
  CHECK(device.num_multiprocessors > 0);
  CHECK(device.cublas_version == CublasGemms::version());
  CHECK(device.workspace_bytes == kWorkspaceBytes);
}

TEST_CASE("cuda products: a captured product reads what is there when the graph is replayed") {
  Fixture fixture;
  const GemmPointers pointers{.a = fixture.memory(8 * 64 * 4, 0),
                              .weight = fixture.weights[0],
                              .bias = fixture.memory(16 * 4, 0),
                              .c = fixture.memory(8 * 16 * 4, 0x3C)};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(fixture.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  fixture.gemms->run(kShape, pointers, fixture.stream);
  REQUIRE(cudaStreamEndCapture(fixture.stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  std::vector<float> ones(8 * 64, 1.0F), c(8 * 16);
  REQUIRE(cudaMemcpy(const_cast<void*>(pointers.a), ones.data(), ones.size() * 4, cudaMemcpyHostToDevice) ==
          cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, fixture.stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(fixture.stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(c.data(), pointers.c, c.size() * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(c.front() == doctest::Approx(64 * 0.01149F).epsilon(1e-3));  // 0x3C3C3C3C
  CHECK(c.front() == c[7 * 16 - 1]);
  CHECK(c[7 * 16] == c.back());  // the eighth token was none of the product's
  CHECK(c.back() < 0.02F);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

}  // namespace gemm_candidates_test
