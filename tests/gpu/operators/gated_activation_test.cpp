// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/gated_activation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/cpu/kernels/gated_activation.hpp"
#include "gpu/cuda/kernels/rows/gated_activation.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace gated_activation_test {
namespace {

// gate_up as the backend's type can hold it: a GPU reads that.
struct Input {
  std::size_t rows, width;
  std::vector<float> gate_up;
  Activation activation = Activation::kSilu;
  std::size_t offset = 0;  // of memory of a GPU that is not aligned

  Input(const OperatorBackend& backend, std::size_t rows, std::size_t width, float deviation = 4.0F)
      : rows(rows),
        width(width),
        gate_up(as_stored(backend.type, random_values(rows * 2 * width, 1, deviation))) {}
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  CpuBuffer h(backend.type, std::vector<float>(input.rows * input.width));
  const GatedActivationArguments arguments{.activation = input.activation,
                                           .gate_up = input.gate_up.data(),
                                           .gate_up_stride = 2 * input.width,
                                           .h = h.data(),
                                           .h_type = backend.type,
                                           .h_stride = input.width,
                                           .num_rows = input.rows,
                                           .width = input.width,
                                           .isa = backend.isa};
  run_tasks(arguments, gated_activation_num_tasks(arguments), gated_activation_run_task);
  return h.values();
}

std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  TypedBuffer gate_up(backend.type, input.gate_up, input.offset),
      h(backend.type, std::vector<float>(input.rows * input.width), input.offset);
  cuda::launch_gated_activation({.gate_up = gate_up.data(),
                                 .gate_up_stride = 2 * input.width,
                                 .h = h.data(),
                                 .h_stride = input.width,
                                 .type = backend.type,
                                 .num_rows = static_cast<std::uint32_t>(input.rows),
                                 .width = static_cast<std::uint32_t>(input.width)},
                                nullptr);
  return h.values();
}

std::vector<float> run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

double activated(Activation activation, double gate) {
  if (activation == Activation::kSilu) return gate / (1.0 + std::exp(-gate));
  const double inner = std::sqrt(2.0 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
  return 0.5 * gate * (1.0 + std::tanh(inner));
}

// Up to one rounding to h's type.
void check_against_f64(const OperatorBackend& backend, const Input& input) {
  CAPTURE(input.width);
  const auto h = run(backend, input);
  const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
  for (std::size_t row = 0; row < input.rows; ++row) {
    for (std::size_t i = 0; i < input.width; ++i) {
      const double gate = input.gate_up[row * 2 * input.width + i];
      const double up = input.gate_up[row * 2 * input.width + input.width + i];
      const double expected = activated(input.activation, gate) * up;
      // Far below 0 f16 has fewer digits.
      const double allowed = input.activation == Activation::kSilu
                                 ? (1e-6 + rounding) * std::abs(expected) + 0x1p-24 * rounding
                                 : 5e-7 * std::max(1.0, std::abs(gate)) * std::max(1.0, std::abs(up)) +
                                       rounding * std::abs(expected);
      REQUIRE(std::abs(h[row * input.width + i] - expected) <=
              allowed + (backend.type == DataType::kF16 ? 0x1p-25 : 1e-37));
    }
  }
}

}  // namespace

TEST_CASE("gated_activation: silu(gate) * up equals f64") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 13, 64, 173})
      for (const std::size_t rows : {0, 1, 5}) check_against_f64(backend, Input(backend, rows, width));
  });
}

TEST_CASE("gated_activation: tanh-GELU of gate, times up, equals f64 on the CPU, a GPU has none") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    Input input(backend, 5, 173, 3.0F);
    input.activation = Activation::kGeluTanh;
    check_against_f64(backend, input);
  });
}

TEST_CASE(
    "gated_activation: clamped swish of gate, times up + 1 within 7, equals f64 on the CPU, a GPU has none") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    Input input(backend, 5, 173, 6.0F);
    input.activation = Activation::kClampedSwish;
    const auto h = run(backend, input);
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (std::size_t row = 0; row < input.rows; ++row) {
      for (std::size_t i = 0; i < input.width; ++i) {
        const double gate = std::min(7.0, double{input.gate_up[row * 2 * input.width + i]});
        const double up =
            std::clamp(double{input.gate_up[row * 2 * input.width + input.width + i]}, -7.0, 7.0);
        const double expected = gate / (1.0 + std::exp(-1.702 * gate)) * (up + 1.0);
        // 1.702 of the kernel is the f32 next to it, and so is the sum with 1.
        REQUIRE(std::abs(h[row * input.width + i] - expected) <=
                (2e-6 + rounding) * std::abs(expected) + 1e-6);
      }
    }
    input.rows = 1, input.width = 2;
    input.gate_up = {-1000.0F, std::nanf(""), 1.0F, 1.0F};
    const auto extreme = run(backend, input);
    CHECK(extreme[0] == 0.0F);
    CHECK(std::isnan(extreme[1]));
  });
}

TEST_CASE("gated_activation: extreme gates give limits, not NaN; NaN stays NaN") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(backend, 1, 4);
    input.gate_up = {-1000.0F, -100.0F, 1000.0F, std::nanf(""), 1.0F, 1.0F, 1.0F, 1.0F};
    const auto h = run(backend, input);
    CHECK(h[0] == 0.0F);
    CHECK(std::abs(h[1]) < 1e-37F);
    CHECK(h[2] == as_stored(backend.type, {1000.0F})[0]);
    CHECK(std::isnan(h[3]));
  });
}

TEST_CASE("gated_activation: on a GPU memory may begin anywhere, and other types are refused by name") {
  for (const DataType type : kElementTypes) {
    const OperatorBackend gpu{.is_gpu = true, .type = type};
    Input input(gpu, 5, 64);
    input.offset = 1;
    check_against_f64(gpu, input);
  }
  CHECK_THROWS_WITH_AS(
      cuda::launch_gated_activation({.type = DataType::kI32, .num_rows = 1, .width = 1}, nullptr),
      "kernels compute in f32, f16 or bf16, not in i32", std::invalid_argument);
}

}  // namespace gated_activation_test
