// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/activation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

std::vector<float> activated(Activation activation, std::vector<float> x, std::size_t rows, Isa isa) {
  const ActivationArguments arguments{.activation = activation,
                                      .x = x.data(),
                                      .h = x.data(),
                                      .num_rows = rows,
                                      .width = rows == 0 ? 0 : x.size() / rows,
                                      .isa = isa};
  for (std::size_t task = activation_num_tasks(arguments); task-- > 0;) activation_run_task(arguments, task);
  return x;
}

std::vector<float> gelu_of(std::vector<float> x, std::size_t rows, Isa isa) {
  return activated(Activation::kGelu, std::move(x), rows, isa);
}

double expected_of(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSilu: return x / (1.0 + std::exp(-x));
  }
  return NAN;
}

constexpr Activation kAll[] = {Activation::kNone, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kRelu, Activation::kTanh, Activation::kSilu};

}  // namespace

TEST_CASE("activation: each equals f64 within 3e-7, at any place, and what is no number stays none") {
  for (const Isa isa : supported_isas()) {
    for (const Activation activation : kAll) {
      CAPTURE(static_cast<int>(activation));
      std::vector<float> x;
      for (int i = -13000; i <= 13000; i += 7) x.push_back(static_cast<float>(i) / 1000.0F);
      const auto h = activated(activation, x, 1, isa);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CAPTURE(x[i]);
        const double expected = expected_of(activation, x[i]);
        REQUIRE(std::abs(h[i] - expected) <= 3e-7 * std::max(1.0, std::abs(expected)));
        if (i % 50 == 0) REQUIRE(same_bits(activated(activation, {x[i]}, 1, isa).data(), &h[i], 1));
      }
      const auto far = activated(activation, {-40.0F, 0.0F, 40.0F, std::nanf("")}, 1, isa);
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(far[i] == static_cast<float>(expected_of(activation, 40.0 * (static_cast<double>(i) - 1))));
      CHECK(std::isnan(far[3]));
    }
  }
}

TEST_CASE("gelu: equals f64 with erf within 2e-7, and six digits of it where it is small") {
  for (const Isa isa : supported_isas()) {
    std::vector<float> x;
    for (int i = -13000; i <= 13000; ++i) x.push_back(static_cast<float>(i) / 1000.0F);
    const auto h = gelu_of(x, 1, isa);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      const double expected = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
      REQUIRE(std::abs(h[i] - expected) <= 2e-7 * std::max(1.0, std::abs(expected)));
      if (std::abs(expected) > 1e-30) REQUIRE(std::abs(h[i] - expected) <= 2e-5 * std::abs(expected));
    }
  }
}

TEST_CASE("gelu: far out it is 0 or x, and what is no number stays none") {
  for (const Isa isa : supported_isas()) {
    const auto h = gelu_of({-1e30F, -40.0F, 0.0F, 40.0F, 1e30F}, 1, isa);
    CHECK(h[0] == 0.0F);
    CHECK(h[1] == 0.0F);
    CHECK(h[2] == 0.0F);
    CHECK(h[3] == 40.0F);
    CHECK(h[4] == 1e30F);
    CHECK(std::isnan(gelu_of({std::nanf("")}, 1, isa)[0]));
  }
}

TEST_CASE("gelu: a value's bits do not depend on its place; bf16 is f32 rounded; no rows is fine") {
  for (const Isa isa : supported_isas()) {
    const auto x = random_values(7 * 43, 5, 2.0F);
    const auto all = gelu_of(x, 7, isa);
    for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(same_bits(gelu_of({x[i]}, 1, isa).data(), &all[i], 1));
    std::vector<std::uint16_t> rounded(x.size());
    const ActivationArguments arguments{.x = x.data(),
                                        .h = rounded.data(),
                                        .h_type = DataType::kBF16,
                                        .num_rows = 7,
                                        .width = 43,
                                        .isa = isa};
    for (std::size_t task = 0; task < activation_num_tasks(arguments); ++task)
      activation_run_task(arguments, task);
    CHECK(rounded == to_bf16(all));
    CHECK(gelu_of({}, 0, isa).empty());
  }
}
