// SPDX-License-Identifier: Apache-2.0
// Autotuning of a network's GEMMs at start: which kernel computes each, as measured before, as shipped, or
// measured now, the products of decode steps and of large prefills first.
#pragma once

#include <chrono>
#include <string>

#include "gpu/cuda/cuda_model.hpp"
#include "gpu/cuda/gemm/gemm_shape.hpp"
#include "gpu/cuda/weights.hpp"

namespace troupe::cuda {

// A start is not to be longer for it.
inline constexpr std::chrono::milliseconds kAutotuneTime{1000};

// True if kernels/few_token_gemm.hpp can compute the shape.
bool can_use_own_kernel(const GemmShape& shape);

// As shipped, or none, if plan.settings.gemm_choices, a directory, is empty. Measurements
// are stored there; `news` tells of an error in either. Takes device memory and
// gives it back. Throws CudaError, CublasError.
GemmChoices choose_gemms(const CudaModelPlan& plan, const DeviceWeights& weights, std::string& news);

}  // namespace troupe::cuda
