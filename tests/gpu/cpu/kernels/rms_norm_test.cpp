// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/rms_norm.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

void run(const RmsNormArguments& arguments) {
  for (std::size_t task = rms_norm_num_tasks(arguments); task-- > 0;) rms_norm_run_task(arguments, task);
}

}  // namespace

TEST_CASE("rms_norm: equals f64 within 2e-6 relative, with and without a residual") {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t width : {1, 8, 15, 64, 100, 2048}) {
      for (const std::size_t rows : {0, 1, 21}) {
        for (const bool has_residual : {false, true}) {
          CAPTURE(name_of(isa));
          CAPTURE(width);
          auto x = random_values(rows * width, 1, 3.0F);
          const auto before = x;
          const auto residual = random_values(rows * width, 2);
          const auto weight = random_values(width, 3);
          std::vector<float> normed(rows * width);
          run({.x = x.data(),
               .x_stride = width,
               .residual = has_residual ? residual.data() : nullptr,
               .residual_stride = width,
               .weight = weight.data(),
               .normed = normed.data(),
               .normed_stride = width,
               .num_rows = rows,
               .width = width,
               .epsilon = 1e-5F,
               .isa = isa});
          for (std::size_t row = 0; row < rows; ++row) {
            double squares = 0.0;
            for (std::size_t i = 0; i < width; ++i) {
              const std::size_t at = row * width + i;
              const float sum = has_residual ? before[at] + residual[at] : before[at];
              REQUIRE(x[at] == sum);
              squares += double{sum} * sum;
            }
            const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
            for (std::size_t i = 0; i < width; ++i) {
              const double expected = x[row * width + i] * scale * weight[i];
              REQUIRE(std::abs(normed[row * width + i] - expected) <= 2e-6 * std::abs(expected) + 1e-7);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("rms_norm: a row's bits do not depend on its neighbours; bf16 is f32 rounded") {
  const std::size_t width = 203, rows = 32;
  for (const Isa isa : supported_isas()) {
    auto x = random_values(rows * width, 1);
    const auto weight = random_values(width, 3);
    std::vector<float> all(rows * width), alone(width);
    std::vector<std::uint16_t> narrow(rows * width);
    RmsNormArguments arguments{.x = x.data(),
                               .x_stride = width,
                               .weight = weight.data(),
                               .normed = all.data(),
                               .normed_stride = width,
                               .num_rows = rows,
                               .width = width,
                               .isa = isa};
    run(arguments);
    arguments.normed = narrow.data();
    arguments.normed_type = DataType::kBF16;
    run(arguments);
    CHECK(narrow == to_bf16(all));
    for (std::size_t row = 0; row < rows; ++row) {
      run({.x = x.data() + row * width,
           .x_stride = width,
           .weight = weight.data(),
           .normed = alone.data(),
           .normed_stride = width,
           .num_rows = 1,
           .width = width,
           .isa = isa});
      REQUIRE(same_bits(alone.data(), &all[row * width], width));
    }
  }
}
