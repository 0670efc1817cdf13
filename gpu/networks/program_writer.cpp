// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/program_writer.hpp"

#include <utility>

namespace troupe {

ProgramWriter::ProgramWriter(ProgramShape shape, DataType compute_type) : compute_type_(compute_type) {
  program_.shape = shape;
}

TensorId ProgramWriter::temporary(std::string name, DataType type, std::uint32_t columns, RowCount rows,
                                  std::uint32_t rows_a_token) {
  return append({.name = std::move(name),
                 .type = type,
                 .rows = rows,
                 .fixed_rows = rows == RowCount::kFixed ? 1U : 0U,
                 .columns = columns,
                 .rows_a_token = rows_a_token});
}

// The type is the device's choice: it packs and converts weights.
TensorId ProgramWriter::weight(std::string name, std::uint32_t rows, std::uint32_t columns) {
  return append({.name = std::move(name),
                 .type = compute_type_,
                 .role = TensorRole::kWeight,
                 .rows = RowCount::kFixed,
                 .fixed_rows = rows,
                 .columns = columns});
}

void ProgramWriter::add(OperatorKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
  program_.operators.push_back({kind, std::move(inputs), std::move(outputs)});
}

TensorId ProgramWriter::matmul(const std::string& name, TensorId a, std::uint32_t width, bool has_bias) {
  const std::uint32_t depth = program_.tensors[a].columns;
  const RowCount rows = program_.tensors[a].rows;
  const TensorId product = temporary(name + "_product", DataType::kF32, width, rows);
  std::vector<TensorId> inputs = {a, weight(name, width, depth)};
  if (has_bias) inputs.push_back(weight(name + "_bias", 1, width));
  add(Matmul{}, std::move(inputs), {product});
  return product;
}

void ProgramWriter::hand_out(TensorId x) {
  program_.state =
      HandedState{.tensor = x, .num_operators = static_cast<std::uint32_t>(program_.operators.size())};
}

Program ProgramWriter::take() && { return std::move(program_); }

TensorId ProgramWriter::append(TensorSpec tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(program_.tensors.size() - 1);
}

}  // namespace troupe
