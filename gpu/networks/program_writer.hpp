// SPDX-License-Identifier: Apache-2.0
// Writes a program: networks append tensors and operators with it, in order.
#pragma once

#include <string>
#include <vector>

#include "gpu/program/program.hpp"

namespace troupe {

class ProgramWriter {
 public:
  // compute_type: of the operands of products.
  ProgramWriter(ProgramShape shape, DataType compute_type);

  DataType compute_type() const { return compute_type_; }

  // kFixed is one row.
  TensorId temporary(std::string name, DataType type, std::uint32_t columns,
                     RowCount rows = RowCount::kTokens, std::uint32_t rows_a_token = 1);
  TensorId weight(std::string name, std::uint32_t rows, std::uint32_t columns);
  void add(OperatorKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs);

  // a · weightᵀ (+ bias), f32, with the rows of `a`. The weight is called `name`, its
  // bias `name`_bias, the product `name`_product.
  TensorId matmul(const std::string& name, TensorId a, std::uint32_t width, bool has_bias);

  // The state that may be handed out is what x holds behind the operators so far. A later one must
  // read x.
  void hand_out(TensorId x);

  Program take() &&;

 private:
  TensorId append(TensorSpec tensor);

  DataType compute_type_;
  Program program_;
};

}  // namespace troupe
