// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_candidates.hpp"

#include <cuda_runtime.h>

#include <memory>
#include <utility>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Sizes {
  explicit Sizes(const GemmShape& shape)
      : a(aligned(std::size_t{shape.num_tokens} * shape.depth * size_of(shape.type))),
        // f32 for the kernel of few tokens, of c's type for cuBLASLt
        bias(aligned(std::size_t{shape.num_outputs} * sizeof(float))),
        c(aligned(std::size_t{shape.num_tokens} * shape.num_outputs * size_of(shape.c_type))) {}
  std::size_t a, bias, c;
};

FewTokenGemmArguments few_tokens_of(const GemmShape& shape, const GemmPointers& pointers,
                                    std::byte* workspace) {
  return {.input = {.a = pointers.a,
                    .a_stride = shape.depth,
                    .weight = pointers.weight,
                    .weight_stride = shape.depth,
                    .bias = static_cast<const float*>(pointers.bias),
                    .type = shape.type,
                    .num_tokens = shape.num_tokens,
                    .num_outputs = shape.num_outputs,
                    .depth = shape.depth,
                    .workspace = workspace},
          .c = pointers.c,
          .c_stride = shape.num_outputs,
          .c_type = shape.c_type};
}

bool can_be_few_tokens(const GemmShape& shape) {
  return !shape.adds && shape.activation == GemmActivation::kNone &&
         can_multiply_few_tokens(few_tokens_of(shape, {}, nullptr).input);
}

}  // namespace

std::size_t gemm_scratch_bytes(const GemmShape& shape) {
  const Sizes sizes(bin_of(shape));
  return sizes.a + sizes.bias + sizes.c;
}

std::vector<GemmCandidate> gemm_candidates(CublasGemms& gemms, const GemmShape& any_shape,
                                           const GemmScratch& scratch, std::vector<const void*> weights,
                                           StreamHandle stream) {
  const GemmShape shape = bin_of(any_shape);
  if (weights.empty() || gemm_scratch_bytes(shape) > scratch.size_bytes) return {};
  const Sizes sizes(shape);
  GemmPointers pointers{.a = scratch.memory,
                        .bias = shape.has_bias ? scratch.memory + sizes.a : nullptr,
                        .c = scratch.memory + sizes.a + sizes.bias};
  const auto all = std::make_shared<const std::vector<const void*>>(std::move(weights));
  std::vector<GemmCandidate> candidates;
  for (const GemmChoice& choice : gemms.candidates(shape, kMostCublasCandidates)) {
    candidates.push_back({choice, [=, &gemms](std::size_t i) {
                            GemmPointers with = pointers;
                            with.weight = (*all)[i % all->size()];
                            gemms.run_with(choice, shape, with, stream);
                          }});
  }
  if (can_be_few_tokens(shape)) {
    candidates.push_back({{.kernel = GemmKernel::kFewTokens}, [=](std::size_t i) {
                            GemmPointers with = pointers;
                            with.weight = (*all)[i % all->size()];
                            launch_few_token_gemm(few_tokens_of(shape, with, scratch.few_token_workspace),
                                                  stream);
                          }});
  }
  return candidates;
}

std::size_t use_choices(CublasGemms& gemms, GemmChoices& choices) {
  return std::erase_if(choices, [&gemms](const auto& entry) {
    const auto& [shape, choice] = entry;
    return choice.kernel == GemmKernel::kCublasLt && !gemms.use(shape, choice);
  });
}

GemmDevice gemm_device(int device, std::size_t workspace_bytes) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return {.name = properties.name,
          .compute_capability = properties.major * 10 + properties.minor,
          .num_multiprocessors = properties.multiProcessorCount,
          .cublas_version = CublasGemms::version(),
          .workspace_bytes = workspace_bytes};
}

}  // namespace troupe::cuda
