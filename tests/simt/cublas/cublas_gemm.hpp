// SPDX-License-Identifier: Apache-2.0
// The numbers of cuBLASLt's twin: d = gelu(alpha * aᵗ · b + beta * c + bias), all
// matrices by columns, sums in f32.
#pragma once

#include <library_types.h>

#include <cstdint>

namespace troupe::simt {

struct CublasMatrix {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
};

struct CublasGemm {
  CublasMatrix a, b, c, d;  // [depth, rows of d], [depth, columns of d]
  const void* a_values = nullptr;
  const void* b_values = nullptr;
  const void* c_values = nullptr;  // read if beta is not 0
  void* d_values = nullptr;
  const void* bias = nullptr;  // [rows of d] of d's type
  float alpha = 1.0F, beta = 0.0F;
  bool rounds_to_tf32 = false;
  bool has_bias = false, has_gelu = false;
  std::uint64_t parts = 1;     // that the depth is cut into
  float* workspace = nullptr;  // [parts, columns of d, rows of d], if there are several
};

void multiply(const CublasGemm& gemm);

}  // namespace troupe::simt
