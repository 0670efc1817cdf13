// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/onednn_matmul.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

void compare(std::size_t rows, std::size_t outputs, std::size_t inputs, DataType type, std::size_t num_slices,
             double tolerance) {
  CAPTURE(rows);
  CAPTURE(outputs);
  CAPTURE(name_of(type));
  const auto w = random_values(outputs * inputs, 1);
  const auto a = random_values(rows * inputs, 2);
  const auto a_bf16 = to_bf16(a);
  const auto bias = random_values(outputs, 3);
  const std::vector<MatrixSource> sources{
      {w.data(), DataType::kF32, outputs / 2},
      {w.data() + outputs / 2 * inputs, DataType::kF32, outputs - outputs / 2}};
  const OnednnMatrix theirs(sources, inputs, type, num_slices);
  PackedMatrix ours(sources, inputs, format_of(type));
  ours.pack();
  std::vector<float> expected(rows * outputs), c(rows * outputs, -1.0F);
  const void* operand = type == DataType::kBF16 ? static_cast<const void*>(a_bf16.data()) : a.data();
  const MatmulArguments reference{.weight = &ours,
                                  .a = operand,
                                  .a_type = type,
                                  .a_stride = inputs,
                                  .bias = bias.data(),
                                  .c = expected.data(),
                                  .c_stride = outputs,
                                  .num_rows = rows};
  for (std::size_t task = 0; task < matmul_num_tasks(reference); ++task) matmul_run_task(reference, task);
  const OnednnMatmulArguments arguments{.weight = &theirs,
                                        .a = operand,
                                        .a_stride = inputs,
                                        .bias = bias.data(),
                                        .c = c.data(),
                                        .c_stride = outputs,
                                        .num_rows = rows};
  {
    std::vector<std::jthread> threads;
    for (std::size_t task = 0; task < onednn_matmul_num_tasks(arguments); ++task) {
      threads.emplace_back([&, task] { onednn_matmul_run_task(arguments, task); });
    }
  }
  double worst = 0.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    worst = std::max(worst, std::abs(double{c[i]} - expected[i]));
  }
  CHECK(worst < tolerance * std::sqrt(static_cast<double>(inputs)));
}

}  // namespace

TEST_CASE("onednn: agrees with our product, slices on different threads") {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    if (!OnednnMatrix::can_multiply(type)) {
      CHECK(type == DataType::kBF16);
      MESSAGE("not compared in bf16: oneDNN has no such product for this processor");
      continue;
    }
    compare(4, 96, 64, type, 2, 1e-5);
    compare(33, 100, 130, type, 3, 1e-5);
    compare(70, 33, 256, type, 1, 1e-5);
  }
}

TEST_CASE("onednn: no rows are no tasks") {
  const auto w = random_values(64, 1);
  const OnednnMatrix weight({{w.data(), DataType::kF32, 8}}, 8, DataType::kF32, 2);
  CHECK(onednn_matmul_num_tasks({.weight = &weight}) == 0);
}
