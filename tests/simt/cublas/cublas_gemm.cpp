// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/cublas/cublas_gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace troupe::simt {
namespace {

constexpr std::size_t kLanes = 8;  // partial sums of one element
constexpr std::size_t kRows = 4;   // of d that are computed at once

float read(const void* values, cudaDataType type, std::size_t i) {
  switch (type) {
    case CUDA_R_16F: return __half2float(static_cast<const __half*>(values)[i]);
    case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[i]);
    case CUDA_R_32F: break;
  }
  return static_cast<const float*>(values)[i];
}

void write(void* values, cudaDataType type, std::size_t i, float value) {
  switch (type) {
    case CUDA_R_16F: static_cast<__half*>(values)[i] = __float2half(value); return;
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16(value); return;
    case CUDA_R_32F: break;
  }
  static_cast<float*>(values)[i] = value;
}

// Ten bits of mantissa, to the nearest, as PTX's cvt.rna.tf32 does.
float rounded_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((bits + 0x1000U) & 0xFFFFE000U);
}

// One column, in f32; `widened` is longer and keeps zeros at its end.
void widen(const CublasMatrix& matrix, const void* values, std::size_t column, bool rounds, float* widened) {
  const std::size_t begin = column * static_cast<std::size_t>(matrix.ld);
  if (matrix.type == CUDA_R_16BF) {  // worth a loop that the compiler makes wide
    const auto* const from = static_cast<const __nv_bfloat16*>(values) + begin;
    for (std::size_t k = 0; k < matrix.rows; ++k) widened[k] = __bfloat162float(from[k]);
    return;
  }
  for (std::size_t k = 0; k < matrix.rows; ++k) {
    const float value = read(values, matrix.type, begin + k);
    widened[k] = rounds ? rounded_to_tf32(value) : value;
  }
}

std::array<float, kRows> dot_products(const float* rows, std::size_t row_length, const float* with,
                                      std::size_t begin, std::size_t end) {
  float lanes[kRows][kLanes] = {};
  for (std::size_t k = begin; k < end; k += kLanes) {
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[row][lane] += rows[row * row_length + k + lane] * with[k + lane];
      }
    }
  }
  std::array<float, kRows> sums{};
  for (std::size_t row = 0; row < kRows; ++row) {
    for (const float lane : lanes[row]) sums[row] += lane;
  }
  return sums;
}

float gelu(float x) {
  constexpr float kRootOfTwoOverPi = 0.7978845608F;
  return 0.5F * x * (1.0F + std::tanh(kRootOfTwoOverPi * (x + 0.044715F * x * x * x)));
}

void finish(const CublasGemm& gemm, std::size_t row, std::size_t column, float sum) {
  float value = gemm.alpha * sum;
  if (gemm.beta != 0.0F) {
    const std::size_t i = column * static_cast<std::size_t>(gemm.c.ld) + row;
    value += gemm.beta * read(gemm.c_values, gemm.c.type, i);
  }
  if (gemm.has_bias) value += read(gemm.bias, gemm.d.type, row);
  if (gemm.has_gelu) value = gelu(value);
  write(gemm.d_values, gemm.d.type, column * static_cast<std::size_t>(gemm.d.ld) + row, value);
}

void add_parts(const CublasGemm& gemm) {
  const std::size_t size = gemm.d.rows * gemm.d.cols;
  for (std::size_t i = 0; i < size; ++i) {
    float sum = 0.0F;
    for (std::size_t part = 0; part < gemm.parts; ++part) {
      sum += gemm.workspace[part * size + i];
    }
    finish(gemm, i % gemm.d.rows, i / gemm.d.rows, sum);
  }
}

}  // namespace

void multiply(const CublasGemm& gemm) {
  const std::size_t depth = gemm.a.rows, rows = gemm.d.rows, columns = gemm.d.cols;
  const std::size_t length = (depth + kLanes - 1) / kLanes * kLanes;
  const std::size_t part_length = ((length + gemm.parts - 1) / gemm.parts + kLanes - 1) / kLanes * kLanes;
  std::vector<float> b(columns * length), a(kRows * length);
  for (std::size_t column = 0; column < columns; ++column) {
    widen(gemm.b, gemm.b_values, column, gemm.rounds_to_tf32, &b[column * length]);
  }
  for (std::size_t first = 0; first < rows; first += kRows) {
    const std::size_t count = std::min(kRows, rows - first);
    for (std::size_t row = 0; row < count; ++row) {
      widen(gemm.a, gemm.a_values, first + row, gemm.rounds_to_tf32, &a[row * length]);
    }
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t part = 0; part < gemm.parts; ++part) {
        const std::size_t begin = std::min(part * part_length, length);
        const std::size_t end = std::min(begin + part_length, length);
        const auto sums = dot_products(a.data(), length, &b[column * length], begin, end);
        for (std::size_t row = 0; row < count; ++row) {
          if (gemm.parts == 1) {
            finish(gemm, first + row, column, sums[row]);
          } else {
            gemm.workspace[(part * columns + column) * rows + first + row] = sums[row];
          }
        }
      }
    }
  }
  if (gemm.parts > 1) add_parts(gemm);
}

}  // namespace troupe::simt
