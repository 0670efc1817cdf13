// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/layer_norm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gpu/cpu/kernels/layer_norm.hpp"
#include "gpu/cuda/kernels/rows/layer_norm.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace layer_norm_test {
namespace {

enum class Target : std::uint8_t { kApart, kX, kResidual };

struct Input {
  std::size_t rows, width;
  std::vector<float> x, residual, weight, bias;
  bool has_residual = true;
  Target target = Target::kApart;  // normed lies there
  std::size_t offset = 0;          // of memory of a GPU that is not aligned

  Input(std::size_t rows, std::size_t width, float mean = 0.0F)
      : rows(rows),
        width(width),
        x(random_values(rows * width, 1, 3.0F)),
        residual(random_values(rows * width, 2)),
        weight(random_values(width, 3)),
        bias(random_values(width, 4)) {
    for (auto& value : x) value += mean;
  }
};

struct Output {
  std::vector<float> normed, rounded;  // rounded: empty where the type is f32
};

// Where normed lies: x and residual are overwritten as far as it is they.
template <typename Buffer>
Buffer& target_of(const Input& input, Buffer& x, Buffer& residual, Buffer& apart) {
  return input.target == Target::kX ? x : input.target == Target::kResidual ? residual : apart;
}

Output on_cpu(const OperatorBackend& backend, const Input& input) {
  std::vector<float> x = input.x, residual = input.residual, apart(input.x.size(), 7.0F);
  std::vector<std::uint16_t> rounded(backend.type == DataType::kF32 ? 0 : input.x.size());
  auto& normed = target_of(input, x, residual, apart);
  const LayerNormArguments arguments{.x = x.data(),
                                     .residual = input.has_residual ? residual.data() : nullptr,
                                     .weight = input.weight.data(),
                                     .bias = input.bias.data(),
                                     .normed = normed.data(),
                                     .rounded = rounded.empty() ? nullptr : rounded.data(),
                                     .num_rows = input.rows,
                                     .width = input.width,
                                     .epsilon = 1e-12F,
                                     .isa = backend.isa};
  run_tasks(arguments, layer_norm_num_tasks(arguments), layer_norm_run_task);
  return {normed, rounded.empty() ? std::vector<float>{} : to_f32(rounded)};
}

Output on_gpu(const OperatorBackend& backend, const Input& input) {
  const bool is_rounded = backend.type != DataType::kF32;
  DeviceArray<float> x(input.x, input.offset), residual(input.residual, input.offset),
      weight(input.weight, input.offset), bias(input.bias, input.offset),
      apart(std::vector<float>(input.x.size(), 7.0F), input.offset);
  TypedBuffer rounded(backend.type, input.x, input.offset);
  auto& normed = target_of(input, x, residual, apart);
  cuda::launch_layer_norm({.x = x.data(),
                           .residual = input.has_residual ? residual.data() : nullptr,
                           .weight = weight.data(),
                           .bias = bias.data(),
                           .normed = normed.data(),
                           .rounded = is_rounded ? rounded.data() : nullptr,
                           .type = backend.type,
                           .num_rows = static_cast<std::uint32_t>(input.rows),
                           .width = static_cast<std::uint32_t>(input.width),
                           .epsilon = 1e-12F},
                          nullptr);
  return {normed.values(), is_rounded ? rounded.values() : std::vector<float>{}};
}

Output run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

// Relative to the part that the weight scales.
double worst_against_f64(const Input& input, const std::vector<float>& normed) {
  REQUIRE(normed.size() == input.x.size());
  double worst = 0.0;
  for (std::size_t row = 0; row < input.rows; ++row) {
    std::vector<double> values(input.width);
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < input.width; ++i) {
      const std::size_t at = row * input.width + i;
      values[i] = input.has_residual ? input.x[at] + input.residual[at] : input.x[at];
      mean += values[i] / static_cast<double>(input.width);
    }
    for (const double value : values)
      variance += (value - mean) * (value - mean) / static_cast<double>(input.width);
    for (std::size_t i = 0; i < input.width; ++i) {
      const double scaled = (values[i] - mean) / std::sqrt(variance + 1e-12) * input.weight[i];
      const double error = std::abs(normed[row * input.width + i] - (scaled + input.bias[i]));
      worst = std::max(worst, error / (1.0 + std::abs(scaled)));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("layer_norm: equals f64 within 4e-6, with and without a residual") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 8, 15, 100, 384}) {
      for (const std::size_t rows : {0, 1, 5}) {
        CAPTURE(width);
        Input input(rows, width);
        CHECK(worst_against_f64(input, run(backend, input).normed) <= 4e-6);
        input.has_residual = false;
        CHECK(worst_against_f64(input, run(backend, input).normed) <= 4e-6);
      }
    }
  });
}

TEST_CASE("layer_norm: a mean that is large beside the deviation costs no digits") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(3, 384, 256.0F);  // sums of squares would lose five digits
    input.has_residual = false;
    CHECK(worst_against_f64(input, run(backend, input).normed) < 5e-5);
  });
}

TEST_CASE("layer_norm: in place or not, alone or among others: the same bits; a is normed, rounded") {
  on_every_backend([](const OperatorBackend& backend) {
    const std::size_t rows = 6, width = 203;
    Input input(rows, width);
    const Output all = run(backend, input);
    if (backend.type != DataType::kF32) CHECK(all.rounded == as_stored(backend.type, all.normed));
    for (const Target target : {Target::kX, Target::kResidual}) {
      input.target = target;
      CHECK(run(backend, input).normed == all.normed);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      Input alone(1, width);
      alone.x = rows_of(input.x, width, row);
      alone.residual = rows_of(input.residual, width, row);
      CHECK(run(backend, alone).normed == rows_of(all.normed, width, row));
    }
  });
}

TEST_CASE(
    "layer_norm: on a GPU memory may begin anywhere, rows be wider than a block or come several a block") {
  for (const DataType type : kElementTypes) {
    const OperatorBackend gpu{.is_gpu = true, .type = type};
    Input shifted(2, 256);
    shifted.offset = 1;
    for (const Input& input : {shifted, Input(1, 8192 + 24), Input(1058, 20)})
      CHECK(worst_against_f64(input, run(gpu, input).normed) <= 4e-6);
  }
}

}  // namespace layer_norm_test
