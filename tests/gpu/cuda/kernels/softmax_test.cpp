// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/softmax.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::uint32_t rows, width;
  std::vector<std::uint32_t> lengths = {};
  std::size_t extra_stride = 0;
  std::size_t offset = 0;
};

std::vector<float> softmax(const Case& c, DataType type, const std::vector<float>& scores) {
  TypedBuffer buffer(type, scores, c.offset);
  DeviceArray<std::uint32_t> lengths(c.lengths);
  const auto groups = static_cast<std::uint32_t>(std::max<std::size_t>(1, c.lengths.size()));
  cuda::launch_softmax({.scores = buffer.data(),
                        .stride = c.width + c.extra_stride,
                        .type = type,
                        .num_rows = c.rows,
                        .width = c.width,
                        .scale = 0.5F,
                        .lengths = c.lengths.empty() ? nullptr : lengths.data(),
                        .rows_of_length = c.rows / groups},
                       nullptr);
  return buffer.values();
}

double worst_against_f64(const Case& c, DataType type) {
  const std::size_t stride = c.width + c.extra_stride;
  const auto scores = as_stored(type, random_values(c.rows * stride, 1, 8.0F));
  const auto weights = softmax(c, type, scores);
  double worst = 0.0;
  for (std::size_t row = 0; row < c.rows; ++row) {
    const std::size_t length = c.lengths.empty() ? c.width : c.lengths[row / (c.rows / c.lengths.size())];
    const float* begin = scores.data() + row * stride;
    double total = 0.0;
    for (std::size_t i = 0; i < length; ++i) total += std::exp(0.5 * begin[i]);
    for (std::size_t i = 0; i < stride; ++i) {
      const double expected = i >= c.width ? begin[i] : i >= length ? 0.0 : std::exp(0.5 * begin[i]) / total;
      worst = std::max(worst, std::abs(weights[row * stride + i] - expected));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda softmax: equals f64, whatever the shape, lengths and alignment") {
  in_several_orders([] {
    for (const DataType type : kElementTypes) {
      const double allowed = rounding_of(type) + 1e-6;
      CHECK(worst_against_f64({1, 1}, type) < allowed);
      CHECK(worst_against_f64({2, 500}, type) < allowed);
      CHECK(worst_against_f64({6, 77, {77, 1, 30}, 5}, type) < allowed);
      CHECK(worst_against_f64({4, 64, {64, 0}}, type) < allowed);
      CHECK(worst_against_f64({3, 200, {}, 0, 1}, type) < allowed);
    }
  });
  CHECK(worst_against_f64({1, 8192 + 20, {8200}}, DataType::kF32) < 1e-6);
  CHECK(worst_against_f64({1060, 40, {40, 3}}, DataType::kF32) < 1e-6);
  CHECK(worst_against_f64({0, 40}, DataType::kF32) == 0.0);
}

TEST_CASE("cuda softmax: in f16, a row's sum may be larger than f16 holds") {
  constexpr std::uint32_t kWidth = 70000;
  const auto weights = softmax({1, kWidth}, DataType::kF16, std::vector<float>(kWidth, 60000.0F));
  CHECK(weights.front() == doctest::Approx(1.0 / kWidth).epsilon(0x1p-7));
  CHECK(weights.back() == weights.front());
}

TEST_CASE("cuda softmax: scores that would overflow, and rows that are masked all over") {
  const auto weights = softmax({2, 4}, DataType::kF32,
                               {1000.0F, 1000.0F, -kInfinity, -1000.0F,  //
                                -kInfinity, -kInfinity, -kInfinity, -kInfinity});
  CHECK(weights == std::vector<float>{0.5F, 0.5F, 0, 0, 0, 0, 0, 0});
}
