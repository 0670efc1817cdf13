// SPDX-License-Identifier: Apache-2.0
// Rows rounded to 8 bits with their memory, and their values by the words of q8_rows.hpp.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"

namespace troupe {

struct RoundedRows {
  // a: [num_rows, num_inputs]
  RoundedRows(const void* a, DataType a_type, std::size_t num_rows, std::size_t num_inputs,
              Isa isa = best_isa())
      : memory(q8_rows_bytes(num_rows, num_inputs) / sizeof(float)),
        view(place_q8_rows(memory.data(), num_rows, num_inputs)) {
    const RoundRowsArguments arguments{
        .a = a, .a_type = a_type, .a_stride = num_inputs, .num_inputs = num_inputs, .rows = view, .isa = isa};
    for (std::size_t task = round_rows_num_tasks(arguments); task-- > 0;)
      round_rows_run_task(arguments, task);
  }

  double scale(std::size_t row, std::size_t k) const {
    return view.blocks[k / 32 * view.num_rows + row].scale;
  }
  int number(std::size_t row, std::size_t k) const {
    constexpr std::size_t kPlaces[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // of input k % 8
    const std::size_t block = k / 32 * view.num_rows + row;
    return view.numbers[block * 32 + k % 32 / 8 * 8 + kPlaces[k % 8]];
  }
  // [num_rows, num_inputs]
  std::vector<double> values(std::size_t num_inputs) const {
    std::vector<double> result;
    for (std::size_t row = 0; row < view.num_rows; ++row)
      for (std::size_t k = 0; k < num_inputs; ++k) result.push_back(number(row, k) * scale(row, k));
    return result;
  }

  std::vector<float> memory;
  Q8Rows view;
};

}  // namespace troupe
