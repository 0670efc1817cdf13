// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/activate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/cpu/kernels/activate.hpp"
#include "gpu/cuda/kernels/rows/activate.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace activate_test {
namespace {

constexpr Activation kAll[] = {Activation::kNone,        Activation::kGelu, Activation::kGeluTanh,
                               Activation::kRelu,        Activation::kTanh, Activation::kSilu,
                               Activation::kClampedSwish};

struct Matrix {
  std::vector<float> values;
  std::size_t rows = 1;
  std::size_t width() const { return rows == 0 ? 0 : values.size() / rows; }
};

std::vector<float> on_cpu(const OperatorBackend& backend, Activation activation, const Matrix& x) {
  CpuBuffer h(backend.type, x.values);
  const ActivateArguments arguments{.activation = activation,
                                    .x = x.values.data(),
                                    .h = h.data(),
                                    .h_type = backend.type,
                                    .num_rows = x.rows,
                                    .width = x.width(),
                                    .isa = backend.isa};
  run_tasks(arguments, activate_num_tasks(arguments), activate_run_task);
  return h.values();
}

std::vector<float> on_gpu(const OperatorBackend& backend, Activation activation, const Matrix& x) {
  DeviceArray<float> from(x.values);
  TypedBuffer h(backend.type, x.values);
  cuda::launch_activate({.activation = activation,
                         .x = from.data(),
                         .h = h.data(),
                         .h_type = backend.type,
                         .num_rows = static_cast<std::uint32_t>(x.rows),
                         .width = static_cast<std::uint32_t>(x.width())},
                        nullptr);
  return h.values();
}

std::vector<float> run(const OperatorBackend& backend, Activation activation, const Matrix& x) {
  return backend.is_gpu ? on_gpu(backend, activation, x) : on_cpu(backend, activation, x);
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
    case Activation::kClampedSwish: return std::min(x, 7.0) / (1.0 + std::exp(-1.702 * std::min(x, 7.0)));
  }
  return NAN;
}

}  // namespace

TEST_CASE("activate: each function equals f64 within 4e-7 and one rounding to h's type") {
  on_every_backend([](const OperatorBackend& backend) {
    Matrix x;
    for (int i = -13000; i <= 13000; i += backend.is_gpu ? 37 : 7)
      x.values.push_back(static_cast<float>(i) / 1000.0F);
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (const Activation activation : kAll) {
      CAPTURE(static_cast<int>(activation));
      const auto h = run(backend, activation, x);
      REQUIRE(h.size() == x.values.size());
      for (std::size_t i = 0; i < h.size(); ++i) {
        CAPTURE(x.values[i]);
        const double expected = expected_of(activation, x.values[i]);
        REQUIRE(std::abs(h[i] - expected) <=
                4e-7 * std::max(1.0, std::abs(expected)) + rounding * std::abs(expected));
      }
    }
  });
}

TEST_CASE("activate: far out there are the limits, and what is no number stays none") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const Activation activation : kAll) {
      CAPTURE(static_cast<int>(activation));
      const auto far = run(backend, activation, {{-40.0F, 0.0F, 40.0F, std::nanf("")}});
      // Only kClampedSwish has a limit that is no number of f32 or f16.
      const double rounding = activation == Activation::kClampedSwish ? 1e-5 : 0.0;
      for (std::size_t i = 0; i < 3; ++i) {
        const double expected = expected_of(activation, 40.0 * (static_cast<double>(i) - 1));
        CHECK(std::abs(far[i] - expected) < 1e-15 + rounding * std::abs(expected));
      }
      CHECK(std::isnan(far[3]));
    }
  });
}

TEST_CASE("activate: GELU has five digits where it is small, too") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;
    Matrix x;
    for (int i = 0; i <= 80; ++i) x.values.push_back(static_cast<float>(i) * -0.1F);
    const auto h = run(backend, Activation::kGelu, x);
    for (std::size_t i = 1; i < h.size(); ++i) {
      CAPTURE(x.values[i]);
      const double expected = expected_of(Activation::kGelu, x.values[i]);
      REQUIRE(std::abs(h[i] - expected) <= 2e-5 * std::abs(expected));
    }
  });
}

TEST_CASE("activate: a value's bits do not depend on its place; no rows is fine") {
  on_every_backend([](const OperatorBackend& backend) {
    const Matrix x{random_values(7 * 43, 5, 2.0F), 7};
    for (const Activation activation : kAll) {
      const auto all = run(backend, activation, x);
      for (std::size_t row = 0; row < 7; ++row)
        REQUIRE(run(backend, activation, {rows_of(x.values, 43, row)}) == rows_of(all, 43, row));
    }
    CHECK(run(backend, Activation::kGelu, {{}, 0}).empty());
  });
}

TEST_CASE("activate: x may be of h's type on a GPU, in place and not aligned, and of no third type") {
  for (const DataType type : kElementTypes) {
    const auto values = as_stored(type, random_values(5 * 64, 1, 2.0F));
    const auto expected = run({.is_gpu = true, .type = type}, Activation::kGelu, {values, 5});
    TypedBuffer x(type, values, 1);
    cuda::launch_activate(
        {.x = x.data(), .x_type = type, .h = x.data(), .h_type = type, .num_rows = 5, .width = 64}, nullptr);
    CHECK(x.values() == expected);
  }
  CHECK_THROWS_AS(cuda::launch_activate({.x_type = DataType::kF16, .h_type = DataType::kBF16}, nullptr),
                  std::invalid_argument);
}

}  // namespace activate_test
