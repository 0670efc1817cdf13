// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/device.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <random>
#include <stdexcept>
#include <string>

namespace troupe::cuda {
namespace {

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cuBLASLt: ") + cublasLtGetStatusString(status));
  }
}

double copy_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const DeviceMemory from = random_bf16(kBytes), to = uninitialised(kBytes);
  const double seconds = seconds_of([&](std::size_t) {
    CUDA_CHECK(cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, nullptr));
  });
  return 2.0 * kBytes / seconds;
}

double matmul_rate() {
  constexpr std::size_t kSize = 8192;
  constexpr std::size_t kWorkspace = std::size_t{64} << 20;
  const DeviceMemory a = random_bf16(kSize * kSize * 2), b = random_bf16(kSize * kSize * 2),
                     c = uninitialised(kSize * kSize * 2), workspace = uninitialised(kWorkspace);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtCreate(&handle));
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof(transposed)));
  check(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, kSize, kSize, kSize));
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspace, sizeof(kWorkspace)));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, product, layout, layout, layout, layout, preference,
                                       1, &best, &found));
  if (found == 0) throw std::runtime_error("cuBLASLt knows no way to multiply 8192 x 8192");
  const float one = 1.0F, zero = 0.0F;
  const double seconds = seconds_of([&](std::size_t) {
    check(cublasLtMatmul(handle, product, &one, a.get(), layout, b.get(), layout, &zero, c.get(),
                         layout, c.get(), layout, &best.algo, workspace.get(), kWorkspace,
                         nullptr));
  });
  check(cublasLtMatmulPreferenceDestroy(preference));
  check(cublasLtMatrixLayoutDestroy(layout));
  check(cublasLtMatmulDescDestroy(product));
  check(cublasLtDestroy(handle));
  return 2.0 * kSize * kSize * kSize / seconds;
}

}  // namespace

DeviceMemory uninitialised(std::size_t size_bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, std::max<std::size_t>(size_bytes, 1)));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

DeviceMemory random_bf16(std::size_t size_bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<std::uint16_t> piece(std::min(kPiece, size_bytes) / 2);
  for (auto& bits : piece) {
    bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(uniform(random)) >> 16);
  }
  DeviceMemory memory = uninitialised(size_bytes);
  for (std::size_t done = 0; done < size_bytes; done += kPiece) {
    CUDA_CHECK(cudaMemcpy(memory.get() + done, piece.data(), std::min(kPiece, size_bytes - done),
                          cudaMemcpyHostToDevice));
  }
  return memory;
}

double seconds_of(const std::function<void(std::size_t i)>& run) {
  constexpr std::size_t kTrains = 9, kWarmUp = 3;
  constexpr double kTrainSeconds = 0.01;
  cudaEvent_t begin = nullptr, end = nullptr;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::size_t next = 0;
  const auto train = [&](std::size_t length) {
    CUDA_CHECK(cudaEventRecord(begin, nullptr));
    for (std::size_t i = 0; i < length; ++i) run(next++);
    CUDA_CHECK(cudaEventRecord(end, nullptr));
    CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds = 0.0F;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    return milliseconds * 1e-3 / static_cast<double>(length);
  };
  train(kWarmUp);
  const auto length = static_cast<std::size_t>(
      std::clamp(kTrainSeconds / std::max(train(kWarmUp), 1e-7), 3.0, 2000.0));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < kTrains; ++i) seconds.push_back(train(length));
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  std::nth_element(seconds.begin(), seconds.begin() + kTrains / 2, seconds.end());
  return seconds[kTrains / 2];
}

Limits measure_limits() { return {copy_bandwidth(), matmul_rate()}; }

}  // namespace troupe::cuda
