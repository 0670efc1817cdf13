// SPDX-License-Identifier: Apache-2.0
// The device and versions that measured products depend on, asked of CUDA and cuBLASLt.
#pragma once

#include <cstddef>

#include "gpu/cuda/gemm/gemm_choices.hpp"

namespace troupe::cuda {

// `workspace_bytes` is what CublasGemms is given. Throws CudaError.
GemmDevice gemm_device(int device, std::size_t workspace_bytes);

}  // namespace troupe::cuda
