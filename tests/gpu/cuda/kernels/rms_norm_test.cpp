// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/rms_norm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gpu/cpu/kernels/rms_norm.hpp"
#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Case {
  std::uint32_t rows, width;
  std::size_t extra_stride = 0;  // rows lie further apart
  std::size_t offset = 0;        // of unaligned memory
  bool has_residual = true;
};

struct Outcome {
  std::vector<float> normed, x;
};

Outcome run(const Case& c, DataType type, const std::vector<float>& x_values,
            const std::vector<float>& residual_values, const std::vector<float>& weight_values) {
  const std::size_t stride = c.width + c.extra_stride;
  TypedBuffer x(DataType::kF32, x_values, c.offset), residual(type, residual_values, c.offset),
      weight(DataType::kF32, weight_values, c.offset),
      normed(type, std::vector<float>(c.rows * stride, 7.0F), c.offset);
  cuda::launch_rms_norm({.x = static_cast<float*>(x.data()),
                         .x_stride = stride,
                         .residual = c.has_residual ? residual.data() : nullptr,
                         .residual_stride = stride,
                         .weight = static_cast<const float*>(weight.data()),
                         .normed = normed.data(),
                         .normed_stride = stride,
                         .type = type,
                         .num_rows = c.rows,
                         .width = c.width},
                        nullptr);
  return {normed.values(), x.values()};
}

// Equal to the host's kernel up to the order of a sum and one rounding.
void check_against_host(const Case& c, DataType type) {
  CAPTURE(c.rows);
  CAPTURE(c.width);
  CAPTURE(name_of(type));
  const std::size_t stride = c.width + c.extra_stride;
  const auto x = random_values(c.rows * stride, 1);
  const auto residual = as_stored(type, random_values(c.rows * stride, 2));
  const auto weight = random_values(c.width, 3);
  std::vector<float> expected(c.rows * stride), expected_x = x;
  const RmsNormArguments host{.x = expected_x.data(),
                              .x_stride = stride,
                              .residual = c.has_residual ? residual.data() : nullptr,
                              .residual_stride = stride,
                              .weight = weight.data(),
                              .normed = expected.data(),
                              .normed_stride = stride,
                              .num_rows = c.rows,
                              .width = c.width};
  for (std::size_t task = 0; task < rms_norm_num_tasks(host); ++task) {
    rms_norm_run_task(host, task);
  }
  const auto outcome = run(c, type, x, residual, weight);
  CHECK(outcome.x == expected_x);
  double worst = 0.0;
  bool is_padding_kept = true;
  for (std::size_t i = 0; i < c.rows * stride; ++i) {
    if (i % stride >= c.width) {
      is_padding_kept = is_padding_kept && outcome.normed[i] == 7.0F;
      continue;
    }
    const double scale = std::max(1e-3, std::abs(double{expected[i]}));
    worst = std::max(worst, std::abs(double{outcome.normed[i]} - expected[i]) / scale);
  }
  CHECK(worst < rounding_of(type) + 2e-6);
  CHECK(is_padding_kept);
}

}  // namespace

TEST_CASE("cuda rms norm: equals the host's, whatever the shape and alignment") {
  in_several_orders([] {
    for (const DataType type : kElementTypes) {
      check_against_host({1, 1}, type);
      check_against_host({3, 8}, type);
      check_against_host({2, 64, 8}, type);
      check_against_host({5, 77, 3}, type);      // ragged rows
      check_against_host({2, 256, 0, 1}, type);  // rows begin at odd addresses
      check_against_host({2, 768, 0, 0, false}, type);
      check_against_host({1, 2056}, type);
    }
  });
}

TEST_CASE("cuda rms norm: with f16, the residual stream may be larger than f16 holds") {
  const std::vector<float> x{3e6F, -4e6F}, none(2, 0.0F), weight(2, 1.0F);
  const auto outcome = run({1, 2}, DataType::kF16, x, none, weight);
  CHECK(outcome.x == x);
  CHECK(outcome.normed[0] == doctest::Approx(3.0 / std::sqrt(12.5)).epsilon(0x1p-11));
  CHECK(outcome.normed[1] == doctest::Approx(-4.0 / std::sqrt(12.5)).epsilon(0x1p-11));
}

TEST_CASE("cuda rms norm: a row wider than a block's threads is read in steps") {
  for (const DataType type : kElementTypes) check_against_host({1, 8192 + 24}, type);
}

TEST_CASE("cuda rms norm: many narrow rows, several a block, the last block not full") {
  for (const DataType type : kElementTypes) check_against_host({1057, 24}, type);
}

TEST_CASE("cuda rms norm: a row's bits do not depend on the rows beside it") {
  const std::uint32_t width = 200, rows = 1060;
  const auto x = random_values(rows * width, 1), residual = random_values(rows * width, 2),
             weight = random_values(width, 3);
  const auto together = run({rows, width}, DataType::kF32, x, residual, weight).normed;
  for (const std::size_t row : {0, 517, 1059}) {
    const auto slice = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + row * width, all.begin() + (row + 1) * width);
    };
    CHECK(run({1, width}, DataType::kF32, slice(x), slice(residual), weight).normed == slice(together));
  }
}

TEST_CASE("cuda rms norm: no rows, no launch") {
  CHECK(run({0, 16}, DataType::kF32, {}, {}, random_values(16, 1)).normed.empty());
}
