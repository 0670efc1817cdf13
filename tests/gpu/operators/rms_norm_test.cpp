// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/rms_norm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gpu/cpu/kernels/rms_norm.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace rms_norm_test {
namespace {

struct Input {
  std::size_t rows, width;
  std::vector<float> x, residual, weight;
  bool has_residual = true;
  std::size_t extra_stride = 0;  // of a GPU's rows, which then lie further apart
  std::size_t offset = 0;        // of memory of a GPU that is not aligned

  Input(const OperatorBackend& backend, std::size_t rows, std::size_t width)
      : rows(rows),
        width(width),
        x(random_values(rows * width, 1, 3.0F)),
        residual(as_stored(backend.is_gpu ? backend.type : DataType::kF32, random_values(rows * width, 2))),
        weight(random_values(width, 3)) {}
};

struct Output {
  std::vector<float> normed, x;
};

Output on_cpu(const OperatorBackend& backend, const Input& input) {
  std::vector<float> x = input.x;
  CpuBuffer normed(backend.type, std::vector<float>(x.size(), 7.0F));
  const RmsNormArguments arguments{.x = x.data(),
                                   .x_stride = input.width,
                                   .residual = input.has_residual ? input.residual.data() : nullptr,
                                   .residual_stride = input.width,
                                   .weight = input.weight.data(),
                                   .normed = normed.data(),
                                   .normed_type = backend.type,
                                   .normed_stride = input.width,
                                   .num_rows = input.rows,
                                   .width = input.width,
                                   .isa = backend.isa};
  run_tasks(arguments, rms_norm_num_tasks(arguments), rms_norm_run_task);
  return {normed.values(), x};
}

Output on_gpu(const OperatorBackend& backend, const Input& input) {
  const std::size_t stride = input.width + input.extra_stride;
  TypedBuffer x(DataType::kF32, spread_rows(input.x, input.width, stride), input.offset),
      residual(backend.type, spread_rows(input.residual, input.width, stride), input.offset),
      weight(DataType::kF32, input.weight, input.offset),
      normed(backend.type, std::vector<float>(input.rows * stride, kUntouched), input.offset);
  cuda::launch_rms_norm({.x = static_cast<float*>(x.data()),
                         .x_stride = stride,
                         .residual = input.has_residual ? residual.data() : nullptr,
                         .residual_stride = stride,
                         .weight = static_cast<const float*>(weight.data()),
                         .normed = normed.data(),
                         .normed_stride = stride,
                         .type = backend.type,
                         .num_rows = static_cast<std::uint32_t>(input.rows),
                         .width = static_cast<std::uint32_t>(input.width)},
                        nullptr);
  return {gathered_rows(normed.values(), input.width, stride),
          gathered_rows(x.values(), input.width, stride)};
}

Output run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

// Checks x to the bit, and normed up to one rounding to the backend's type.
void check_against_f64(const OperatorBackend& backend, const Input& input) {
  CAPTURE(input.rows);
  CAPTURE(input.width);
  const Output output = run(backend, input);
  const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
  for (std::size_t row = 0; row < input.rows; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < input.width; ++i) {
      const std::size_t at = row * input.width + i;
      REQUIRE(output.x[at] == (input.has_residual ? input.x[at] + input.residual[at] : input.x[at]));
      squares += double{output.x[at]} * output.x[at];
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(input.width) + 1e-5);
    for (std::size_t i = 0; i < input.width; ++i) {
      const std::size_t at = row * input.width + i;
      const double expected = output.x[at] * scale * input.weight[i];
      REQUIRE(std::abs(output.normed[at] - expected) <= (2e-6 + rounding) * std::abs(expected) + 1e-7);
    }
  }
}

}  // namespace

TEST_CASE("rms_norm: equals f64, with and without a residual") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 8, 15, 100, 768}) {
      for (const std::size_t rows : {0, 1, 5}) {
        Input input(backend, rows, width);
        check_against_f64(backend, input);
        input.has_residual = false;
        check_against_f64(backend, input);
      }
    }
  });
}

TEST_CASE("rms_norm: a row's bits do not depend on its neighbours, and rounding is the last step") {
  on_every_backend([](const OperatorBackend& backend) {
    const std::size_t rows = 12, width = 203;
    Input input(backend, rows, width);
    input.has_residual = false;
    const auto all = run(backend, input).normed;
    OperatorBackend exact = backend;
    exact.type = DataType::kF32;
    CHECK(all == as_stored(backend.type, run(exact, input).normed));
    for (std::size_t row = 0; row < rows; ++row) {
      Input alone(backend, 1, width);
      alone.has_residual = false;
      alone.x = rows_of(input.x, width, row);
      CHECK(run(backend, alone).normed == rows_of(all, width, row));
    }
  });
}

TEST_CASE("rms_norm: on a GPU rows may be wide, narrow and many, apart, and begin anywhere") {
  for (const DataType type : kElementTypes) {
    const OperatorBackend gpu{.is_gpu = true, .type = type};
    check_against_f64(gpu, Input(gpu, 1, 8192 + 24));  // wider than a block's threads: in steps
    check_against_f64(gpu, Input(gpu, 1057, 24));      // several a block, the last one not full
    for (const std::size_t extra_stride : {0, 3, 8}) {
      Input input(gpu, 3, 256);
      input.extra_stride = extra_stride;
      input.offset = extra_stride == 8 ? 0 : 1;
      check_against_f64(gpu, input);
    }
  }
}

TEST_CASE("rms_norm: with f16, the residual stream may be larger than f16 holds") {
  const OperatorBackend gpu{.is_gpu = true, .type = DataType::kF16};
  Input input(gpu, 1, 2);
  input.x = {3e6F, -4e6F};
  input.residual = {0.0F, 0.0F};
  input.weight = {1.0F, 1.0F};
  const Output output = run(gpu, input);
  CHECK(output.x == input.x);
  CHECK(output.normed[0] == doctest::Approx(3.0 / std::sqrt(12.5)).epsilon(0x1p-11));
  CHECK(output.normed[1] == doctest::Approx(-4.0 / std::sqrt(12.5)).epsilon(0x1p-11));
}

}  // namespace rms_norm_test
