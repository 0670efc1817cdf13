// SPDX-License-Identifier: Apache-2.0
// The device and versions that measured products depend on, asked of CUDA and cuBLASLt.
#pragma once

#include <cstddef>

#include "gpu/cuda/gemm/product_choices.hpp"

namespace troupe::cuda {

// `workspace_bytes` is what CublasProducts is given. Throws CudaError.
ProductDevice product_device(int device, std::size_t workspace_bytes);

}  // namespace troupe::cuda
