// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/norm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Case {
  std::uint32_t rows, width;
  std::size_t extra_stride = 0;
  std::size_t offset = 0;
  bool is_residual = true;
  float mean = 0.0F;
};

double worst_against_f64(const Case& c, DataType type) {
  CAPTURE(c.rows);
  CAPTURE(c.width);
  const std::size_t stride = c.width + c.extra_stride;
  auto x_values = random_values(c.rows * stride, 1);
  for (auto& value : x_values) value += c.mean;
  const auto residual_values = as_stored(type, random_values(c.rows * stride, 2));
  const auto bias_values = random_values(c.width, 3), weight_values = random_values(c.width, 4),
             added_values = random_values(c.width, 5);
  TypedBuffer x(DataType::kF32, x_values, c.offset), residual(type, residual_values, c.offset),
      added(DataType::kF32, added_values, c.offset), weight(DataType::kF32, weight_values, c.offset),
      bias(DataType::kF32, bias_values, c.offset),
      normed(type, std::vector<float>(c.rows * stride, 7.0F), c.offset);
  cuda::launch_layer_norm({.x = static_cast<float*>(x.data()),
                           .x_stride = stride,
                           .residual = c.is_residual ? residual.data() : nullptr,
                           .residual_stride = stride,
                           .residual_bias = c.is_residual ? static_cast<const float*>(added.data()) : nullptr,
                           .weight = static_cast<const float*>(weight.data()),
                           .bias = static_cast<const float*>(bias.data()),
                           .normed = normed.data(),
                           .normed_stride = stride,
                           .type = type,
                           .num_rows = c.rows,
                           .width = c.width,
                           .epsilon = 1e-5F},
                          nullptr);
  const auto result = normed.values(), written = x.values();
  double worst = 0.0;
  for (std::size_t row = 0; row < c.rows; ++row) {
    std::vector<double> expected(c.width);
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < c.width; ++i) {
      const float sum = c.is_residual
                            ? x_values[row * stride + i] + residual_values[row * stride + i] + added_values[i]
                            : x_values[row * stride + i];
      CHECK(written[row * stride + i] == sum);
      expected[i] = sum;
      mean += expected[i] / c.width;
    }
    for (const double value : expected) variance += (value - mean) * (value - mean) / c.width;
    for (std::size_t i = 0; i < c.width; ++i) {
      const double value =
          (expected[i] - mean) / std::sqrt(variance + 1e-5) * weight_values[i] + bias_values[i];
      const double error = std::abs(result[row * stride + i] - value);
      worst = std::max(worst, error / std::max(1.0, std::abs(value)));
    }
    for (std::size_t i = c.width; i < stride; ++i) CHECK(result[row * stride + i] == 7.0F);
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda layer norm: equals f64, whatever the shape and alignment") {
  in_several_orders([] {
    for (const DataType type : kElementTypes) {
      const double allowed = rounding_of(type) + 4e-6;
      CHECK(worst_against_f64({1, 1}, type) < allowed);
      CHECK(worst_against_f64({3, 8}, type) < allowed);
      CHECK(worst_against_f64({4, 77, 3}, type) < allowed);
      CHECK(worst_against_f64({2, 256, 0, 1}, type) < allowed);
      CHECK(worst_against_f64({2, 768, 8, 0, false}, type) < allowed);
    }
  });
  CHECK(worst_against_f64({1, 8192 + 24}, DataType::kF32) < 4e-6);
  CHECK(worst_against_f64({1058, 20}, DataType::kF32) < 4e-6);
  CHECK(worst_against_f64({0, 20}, DataType::kF32) == 0.0);
}

TEST_CASE("cuda layer norm: a mean a thousand times the deviation costs no digits") {
  // mean(x²) - mean(x)² would leave an error of 1000² * 2^-24, six percent.
  const Case far{4, 768, 0, 0, false, 1000.0F};
  CHECK(worst_against_f64(far, DataType::kF32) < 2e-4);  // the mean itself is known to 6e-5
}
