// SPDX-License-Identifier: Apache-2.0
// Rows of a rounded to 8 bits, for products with weights in blocks. 32 inputs of a row are
// whole numbers from -127 to 127 times one scale, the largest magnitude over 127. Each block of
// a row is rounded by itself, so neither other rows nor other blocks matter; every instruction
// set finds the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

// Offsets of weights' codes (vector/q8_weights.hpp) are multiples of it, Q4_0's is it.
inline constexpr std::int32_t kLeastOffset = 8;

// A block of a row as products take it, beside its numbers.
struct RoundedBlock {
  float scale = 0.0F;                  // NaN: the block has a value that is not finite
  float sum = 0.0F;                    // of the rounded values
  std::int32_t offset = 0;             // minus the sum of the numbers, times kLeastOffset
  std::int32_t first_half_offset = 0;  // the same of the first 16
};

// A view, block after block along K, each of all rows: a tile of rows reads it in one run.
struct Q8Rows {
  // [num_blocks, num_rows, 32]: of 8 inputs in the order 0, 4, 1, 5, 2, 6, 3, 7, in which nibbles
  // of a weight come apart (quantized_block.hpp).
  std::int8_t* numbers = nullptr;
  RoundedBlock* blocks = nullptr;  // [num_blocks, num_rows]
  std::size_t num_rows = 0;
};

std::size_t q8_rows_bytes(std::size_t num_rows, std::size_t num_inputs);
// In memory of so many bytes, aligned to 64.
Q8Rows place_q8_rows(void* memory, std::size_t num_rows, std::size_t num_inputs);
// Rows from this one on; blocks are as far apart as before.
Q8Rows rows_from(const Q8Rows& rows, std::size_t first);

struct RoundRowsArguments {
  const void* a = nullptr;           // [num_rows, K]
  DataType a_type = DataType::kF32;  // kF32 or kBF16
  std::size_t a_stride = 0;          // elements from row to row
  std::size_t num_inputs = 0;        // K; inputs behind it are zeros
  Q8Rows rows;
  Isa isa = best_isa();
};

// Tasks write disjoint rows.
std::size_t round_rows_num_tasks(const RoundRowsArguments& arguments);
void round_rows_run_task(const RoundRowsArguments& arguments, std::size_t task);

}  // namespace troupe
