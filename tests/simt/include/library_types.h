// SPDX-License-Identifier: Apache-2.0
// Names of element types, as far as twins of libraries know them.
#pragma once

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
} cudaDataType;
