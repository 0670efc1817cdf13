// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/gated_activation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

void run(const GatedActivationArguments& arguments) {
  for (std::size_t task = gated_activation_num_tasks(arguments); task-- > 0;) {
    gated_activation_run_task(arguments, task);
  }
}

}  // namespace

TEST_CASE("activation: silu(gate) * up equals f64 within 5e-7 relative") {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t width : {1, 13, 64, 173}) {
      for (const std::size_t rows : {0, 1, 9}) {
        const auto gate_up = random_values(rows * 2 * width, 1, 8.0F);
        std::vector<float> h(rows * width);
        std::vector<std::uint16_t> narrow(rows * width);
        run({.gate_up = gate_up.data(),
             .gate_up_stride = 2 * width,
             .h = h.data(),
             .h_stride = width,
             .num_rows = rows,
             .width = width,
             .isa = isa});
        run({.gate_up = gate_up.data(),
             .gate_up_stride = 2 * width,
             .h = narrow.data(),
             .h_type = DataType::kBF16,
             .h_stride = width,
             .num_rows = rows,
             .width = width,
             .isa = isa});
        CHECK(narrow == to_bf16(h));
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t i = 0; i < width; ++i) {
            const double gate = gate_up[row * 2 * width + i];
            const double up = gate_up[row * 2 * width + width + i];
            const double expected = gate / (1.0 + std::exp(-gate)) * up;
            REQUIRE(std::abs(h[row * width + i] - expected) <= 5e-7 * std::abs(expected) + 1e-37);
          }
        }
      }
    }
  }
}

TEST_CASE("activation: tanh-GELU of gate, times up, equals f64 within 5e-7") {
  const std::size_t width = 173, rows = 5;
  const auto gate_up = random_values(rows * 2 * width, 1, 3.0F);
  for (const Isa isa : supported_isas()) {
    std::vector<float> h(rows * width);
    run({.activation = Activation::kGeluTanh,
         .gate_up = gate_up.data(),
         .gate_up_stride = 2 * width,
         .h = h.data(),
         .h_stride = width,
         .num_rows = rows,
         .width = width,
         .isa = isa});
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        const double gate = gate_up[row * 2 * width + i], up = gate_up[row * 2 * width + width + i];
        const double inner = std::sqrt(2.0 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
        const double expected = 0.5 * gate * (1.0 + std::tanh(inner)) * up;
        REQUIRE(std::abs(h[row * width + i] - expected) <=
                5e-7 * std::max(1.0, std::abs(gate)) * std::max(1.0, std::abs(up)));
      }
    }
  }
}

TEST_CASE("activation: extreme gates give limits, not NaN; NaN stays NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate_up{-1000.0F, -100.0F, 1000.0F, std::nanf(""), 1.0F, 1.0F, 1.0F, 1.0F};
  for (const Isa isa : supported_isas()) {
    float h[4];
    run({.gate_up = gate_up.data(),
         .gate_up_stride = 8,
         .h = h,
         .h_stride = 4,
         .num_rows = 1,
         .width = 4,
         .isa = isa});
    CHECK(h[0] == 0.0F);
    CHECK(std::abs(h[1]) < 1e-37F);
    CHECK(h[2] == 1000.0F);
    CHECK(std::isnan(h[3]));
    CHECK(h[2] < inf);
  }
}

TEST_CASE("exp: below 2 ulp over its whole range") {
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    std::vector<float> x;
    for (double v = -87.3; v < 88.7; v += 0.00371) x.push_back(static_cast<float>(v));
    std::vector<float> y(x.size());
    kernel_table(isa).exponentiate(x.data(), 0.0F, 1.0F, y.data(), x.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double{x[i]});
      const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
      worst = std::max(worst, std::abs(y[i] - expected) / ulp);
    }
    CHECK(worst < 2.0);
    const std::vector<float> limits{-88.0F, -std::numeric_limits<float>::infinity(), 89.0F, std::nanf("")};
    y.resize(4);
    kernel_table(isa).exponentiate(limits.data(), 0.0F, 1.0F, y.data(), 4);
    CHECK(y[0] == 0.0F);
    CHECK(y[1] == 0.0F);
    CHECK(std::isinf(y[2]));
    CHECK(std::isnan(y[3]));
  }
}
