// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/gemms.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/gemm/gemm_timer.hpp"
#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::bench {

using namespace troupe::cuda;

Gemms::Gemms(const Stopwatch& stopwatch, const GemmShape& largest)
    : stopwatch_(stopwatch),
      scratch_bytes_(gemm_scratch_bytes(largest)),
      workspace_(device_buffer(kGemmWorkspaceBytes)),
      few_token_workspace_(device_buffer(kFewTokenWorkspaceBytes)),
      scratch_(random_buffer(DataType::kBF16, scratch_bytes_ / 2)),
      gemms_(workspace_.get(), kGemmWorkspaceBytes) {
  CUDA_CHECK(cudaMemset(few_token_workspace_.get(), 0, kFewTokenWorkspaceBytes));
  CUDA_CHECK(cudaDeviceSynchronize());
}

std::vector<GemmCandidate> Gemms::candidates(const GemmShape& shape,
                                             const std::vector<const void*>& weights) {
  return gemm_candidates(gemms_, shape, {scratch_.get(), scratch_bytes_, few_token_workspace_.get()}, weights,
                         stopwatch_.stream());
}

GemmChoice Gemms::tune(const GemmShape& shape, const std::vector<const void*>& weights, bool only_cublas) {
  auto all = candidates(shape, weights);
  if (only_cublas) {
    std::erase_if(all, [](const auto& c) { return c.choice.kernel != GemmKernel::kCublasLt; });
  }
  GemmTimer timer(stopwatch_.stream());
  const auto best = choose_gemm(all, [&](const GemmRun& run) { return timer(run); });
  if (!best) throw std::runtime_error("nothing can compute " + to_string(shape));
  // Another kernel's choice is none of the library's.
  [[maybe_unused]] const bool is_used = gemms_.use(shape, *best);
  return *best;
}

std::optional<double> Gemms::microseconds_of_first(const GemmShape& shape,
                                                   const std::vector<const void*>& weights) {
  const auto all = candidates(shape, weights);
  if (all.empty()) return std::nullopt;
  return GemmTimer(stopwatch_.stream())(all.front().run);
}

void Gemms::run(const GemmShape& shape, const GemmPointers& pointers) {
  gemms_.run(shape, pointers, stopwatch_.stream());
}

namespace {

// A matrix of Llama-3.1-8B.
struct Matrix {
  const char* name;
  std::uint32_t outputs, depth;
  DataType c_type = DataType::kBF16;
};

// Held against the roof: the longer of reading and writing each matrix once and of
// computing at the best rate. And against the heuristics' first algorithm, which is
// what choosing is worth.
void bench_gemm(Bench& bench, Gemms& gemms, const Matrix& matrix, std::uint32_t tokens,
                const std::vector<const void*>& weights) {
  const GemmShape shape{
      .num_tokens = tokens, .num_outputs = matrix.outputs, .depth = matrix.depth, .c_type = matrix.c_type};
  const GemmChoice best = gemms.tune(shape, weights);
  const double roof = std::max(static_cast<double>(bytes_of(shape)) / bench.limits.read_rate,
                               static_cast<double>(operations_of(shape)) / bench.limits.product_rate);
  const double first = gemms.microseconds_of_first(shape, weights).value_or(0.0);
  bench.recorder.add(
      {.id = std::string("product_") + matrix.name + "_" + std::to_string(tokens),
       .title = std::string("product ") + matrix.name + ", " + std::to_string(tokens) + " tokens",
       .value = roof * 1e6 / best.microseconds,
       .unit = "of the roof",
       .details = {{"us", best.microseconds},
                   {"first_choice_us", first},
                   {"by_own_kernel", best.kernel == GemmKernel::kCublasLt ? 0.0 : 1.0}}});
}

}  // namespace

void bench_gemms(Bench& bench) {
  const std::vector<Matrix> matrices =
      bench.is_tiny ? std::vector<Matrix>{{"qkv", 24, 16}, {"logits", 40, 16, DataType::kF32}}
                    : std::vector<Matrix>{{"qkv", 6144, 4096},
                                          {"o", 4096, 4096},
                                          {"gate_up", 28672, 4096},
                                          {"down", 4096, 14336},
                                          {"logits", 128256, 4096, DataType::kF32}};
  const std::uint32_t most_tokens = bench.pick(4096U, 2U);
  const std::size_t rotated = bench.pick(std::size_t{128256} * 4096 * 2, std::size_t{1} << 12);
  const DeviceBuffer memory = random_buffer(DataType::kBF16, rotated / 2, 0.02F);
  std::uint32_t outputs = 0, depth = 0;
  for (const auto& matrix : matrices) {
    outputs = std::max(outputs, matrix.outputs);
    depth = std::max(depth, matrix.depth);
  }
  Gemms gemms(bench.stopwatch,
              {.num_tokens = most_tokens, .num_outputs = outputs, .depth = depth, .c_type = DataType::kF32});
  for (const auto& matrix : matrices) {
    const std::size_t bytes = std::size_t{matrix.outputs} * matrix.depth * 2;
    std::vector<const void*> weights;
    for (std::size_t at = 0; at + bytes <= rotated; at += bytes) {
      weights.push_back(memory.get() + at);
    }
    for (std::uint32_t tokens = 1; tokens <= most_tokens; tokens *= bench.pick(4U, 2U)) {
      bench_gemm(bench, gemms, matrix, tokens, weights);
    }
  }
}

}  // namespace troupe::bench
