// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

// Some microseconds: a decode step's rows are not worth waking a thread.
constexpr std::size_t kElementsOfTask = std::size_t{1} << 14;

std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

std::size_t rows_of_task(const RoundRowsArguments& arguments) {
  return std::max<std::size_t>(1, kElementsOfTask / std::max<std::size_t>(1, arguments.num_inputs));
}

}  // namespace

std::size_t q8_rows_bytes(std::size_t num_rows, std::size_t num_inputs) {
  return num_rows * divide_up(num_inputs, kBlockInputs) * (kBlockInputs + sizeof(RoundedBlock));
}

Q8Rows place_q8_rows(void* memory, std::size_t num_rows, std::size_t num_inputs) {
  const std::size_t num_blocks = num_rows * divide_up(num_inputs, kBlockInputs);
  auto* const numbers = static_cast<std::int8_t*>(memory);
  auto* const blocks = reinterpret_cast<RoundedBlock*>(numbers + num_blocks * kBlockInputs);
  return {.numbers = numbers, .blocks = blocks, .num_rows = num_rows};
}

Q8Rows rows_from(const Q8Rows& rows, std::size_t first) {
  return {.numbers = rows.numbers + first * kBlockInputs,
          .blocks = rows.blocks + first,
          .num_rows = rows.num_rows};
}

std::size_t round_rows_num_tasks(const RoundRowsArguments& arguments) {
  return divide_up(arguments.rows.num_rows, rows_of_task(arguments));
}

void round_rows_run_task(const RoundRowsArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t first = task * rows_of_task(arguments);
  const std::size_t end = std::min(first + rows_of_task(arguments), arguments.rows.num_rows);
  for (std::size_t row = first; row < end; ++row)
    kernels.round_row({.a = static_cast<const std::byte*>(arguments.a) +
                            row * arguments.a_stride * size_of(arguments.a_type),
                       .a_type = arguments.a_type,
                       .num_inputs = arguments.num_inputs,
                       .row = rows_from(arguments.rows, row)});
}

}  // namespace troupe
