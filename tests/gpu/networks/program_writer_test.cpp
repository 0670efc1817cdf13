// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/program_writer.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/networks/weight_list.hpp"

namespace troupe {

TEST_CASE("program writer: a product has the rows of its left operand and f32 values") {
  ProgramWriter writer({8, 4}, DataType::kBF16);
  const TensorId a = writer.temporary("a", DataType::kBF16, 48, RowCount::kOutputRows);
  const TensorId product = writer.matmul("up", a, 96, false);
  const Program program = std::move(writer).take();
  const TensorSpec& spec = program.tensors.at(product);
  CHECK(spec.name == "up_product");
  CHECK(spec.type == DataType::kF32);
  CHECK(spec.rows == RowCount::kOutputRows);
  CHECK(spec.columns == 96);
  REQUIRE(program.operators.size() == 1);
  REQUIRE(program.operators.front().inputs.size() == 2);
  const TensorSpec& weight = program.tensors.at(program.operators.front().inputs[1]);
  CHECK(weight.name == "up");
  CHECK(weight.role == TensorRole::kWeight);
  CHECK(weight.type == DataType::kBF16);
  CHECK(weight.fixed_rows == 96);
  CHECK(weight.columns == 48);
}

TEST_CASE("program writer: a bias is the third operand of a product") {
  ProgramWriter writer({8, 4}, DataType::kF32);
  writer.matmul("up", writer.temporary("a", DataType::kF32, 48), 96, true);
  const Program program = std::move(writer).take();
  REQUIRE(program.operators.front().inputs.size() == 3);
  const TensorSpec& bias = program.tensors.at(program.operators.front().inputs[2]);
  CHECK(bias.name == "up_bias");
  CHECK(bias.fixed_rows == 1);
  CHECK(bias.columns == 96);
}

TEST_CASE("weight list: a projection stacks its modules, and its bias theirs") {
  WeightList list("bert.");
  list.add_projection("qkv", {"query", "key"}, 64, 48, true);
  list.add_projection("o", {"dense"}, 48, 48, false);
  const auto specs = std::move(list).take();
  REQUIRE(specs.size() == 3);
  CHECK(specs[0].is_matrix);
  CHECK(specs[0].sources == std::vector<std::string>{"query.weight", "key.weight"});
  CHECK(specs[0].other_prefix == "bert.");
  CHECK(specs[1].name == "qkv_bias");
  CHECK(specs[1].is_vector());
  CHECK(specs[1].columns == 64);
  CHECK(specs[1].sources == std::vector<std::string>{"query.bias", "key.bias"});
  CHECK(specs[2].name == "o");
}

}  // namespace troupe
