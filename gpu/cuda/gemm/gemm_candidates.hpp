// SPDX-License-Identifier: Apache-2.0
// The candidates of the GEMM autotuner (gemm_autotune.hpp) on this GPU:
// algorithms of cuBLASLt, and the kernel for few tokens.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/gemm/gemm_autotune.hpp"
#include "gpu/cuda/gemm/gemm_choices.hpp"

namespace troupe::cuda {

inline constexpr std::size_t kMostCublasCandidates = 8;

// Device memory that may be overwritten: the arena before the first batch. It
// should hold ordinary numbers, as products of zeros take less power.
struct GemmScratch {
  std::byte* memory = nullptr;  // at a multiple of 256 bytes
  std::size_t size_bytes = 0;
  std::byte* few_token_workspace = nullptr;  // as FewTokenInput's; none: without it
};

// Few tokens are a candidate where c is stored, neither added to nor activated.
// a, the bias and c lie in the scratch memory; run i reads weights[i % size], of
// one shape, so that layers follow each other as in a batch. None if the scratch
// memory is too small or there are no weights. The result holds references
// to `products`.
std::vector<GemmCandidate> gemm_candidates(CublasGemms& gemms, const GemmShape& shape,
                                           const GemmScratch& scratch, std::vector<const void*> weights,
                                           StreamHandle stream);

// Bytes of scratch memory that the shape wants.
std::size_t gemm_scratch_bytes(const GemmShape& shape);

// Choices of cuBLASLt's are used from now on. Choices that it refuses are erased, so
// that they are measured again; returns their number.
std::size_t use_choices(CublasGemms& gemms, GemmChoices& choices);

// The device and versions that measured products depend on, asked of CUDA and cuBLASLt. `workspace_bytes` is
// what CublasGemms is given. Throws CudaError.
GemmDevice gemm_device(int device, std::size_t workspace_bytes);

}  // namespace troupe::cuda
