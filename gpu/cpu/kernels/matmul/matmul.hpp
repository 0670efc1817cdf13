// SPDX-License-Identifier: Apache-2.0
// The CPU's matrix product (GEMM): c = a · weightᵀ (+ bias) with a packed weight.
//
// Every output is one f32 accumulator that runs over K in order, or over the
// blocks of a quantized weight, each a sum in order times its scale and perhaps the sum
// of a times its minimum, whatever the number of rows, tasks or threads: a row's
// result is the same bits in every batch. One row streams the weight at memory
// speed; many rows are blocked for registers and cache.
//
//   weight  a     arithmetic
//   blocks  q8    whole numbers of 32 bits within a block, then its scale times that of a
//   blocks  any   as kBF16 (on kAmx as on kAvx512Bf16): a block's whole numbers are exact in bf16
//   kBF16   bf16  vdpbf16ps on kAvx512Bf16, elsewhere both widened to f32; on kAmx sums of 32 inputs,
//                 even and odd apart, are added to the accumulator (vector/amx/amx_tile.hpp)
//   kBF16   f32   weights widened to f32, f32 multiply-add: no rounding of a
//   kF16    any   weights opened to f32, which is exact, then the bits of kF32
//   kF32    f32   f32 multiply-add
//   kF32    bf16  a widened to f32
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/matmul/packed_matrix.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

struct MatmulArguments {
  const PackedMatrix* weight = nullptr;  // [N, K]
  // The rows of one of several matrices that are stacked in it, which is the N of what follows: multiples of
  // 32. num_outputs 0: all of them.
  std::size_t first_output = 0;
  std::size_t num_outputs = 0;
  const void* a = nullptr;           // [num_rows, K]
  DataType a_type = DataType::kF32;  // kF32 or kBF16
  std::size_t a_stride = 0;          // elements from row to row
  Q8Rows q8_rows = {};               // a in 8 bits, for a weight in blocks; numbers null: a as it is
  const float* bias = nullptr;       // [N] or none
  float* c = nullptr;                // [num_rows, N]
  std::size_t c_stride = 0;          // elements from row to row, >= N
  std::size_t num_rows = 0;          // 0 is fine: no tasks
  // How many threads will share the tasks: decides how the work is cut, never
  // a result.
  std::size_t num_threads = 1;
  Isa isa = best_isa();
};

// Tasks write disjoint parts of c; a and weight are only read.
std::size_t matmul_num_tasks(const MatmulArguments& arguments);
void matmul_run_task(const MatmulArguments& arguments, std::size_t task);

}  // namespace troupe
