// SPDX-License-Identifier: Apache-2.0
// From a DataType to the type a kernel is instantiated with.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

#include "gpu/data_type.hpp"

namespace troupe::cuda {

// Calls body(T{}) with T = float, __half or __nv_bfloat16. Throws
// std::invalid_argument for another type.
template <typename Body>
void with_element_type(DataType type, Body body) {
  switch (type) {
    case DataType::kF32: return body(float{});
    case DataType::kF16: return body(__half{});
    case DataType::kBF16: return body(__nv_bfloat16{});
    default:
      throw std::invalid_argument("kernels compute in f32, f16 or bf16, not in " +
                                  std::string(name_of(type)));
  }
}

}  // namespace troupe::cuda
