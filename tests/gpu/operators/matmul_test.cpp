// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/matmul.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace {

struct Input {
  std::uint32_t num_rows, num_outputs, depth;
  bool has_bias;
  std::vector<float> a, weight, bias;  // as the backend's type can hold them; bias: as a result is held

  Input(const OperatorBackend& backend, std::uint32_t num_rows, std::uint32_t num_outputs,
        std::uint32_t depth, bool has_bias)
      : num_rows(num_rows),
        num_outputs(num_outputs),
        depth(depth),
        has_bias(has_bias),
        a(as_stored(backend.type, random_values(num_rows * depth, 1))),
        weight(as_stored(backend.type, random_values(num_outputs * depth, 2))),
        bias(random_values(num_outputs, 3)) {}
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  PackedMatrix weight({{input.weight.data(), DataType::kF32, input.num_outputs}}, input.depth,
                      format_of(backend.type));
  weight.pack();
  CpuBuffer a(backend.type, input.a);
  std::vector<float> c(std::size_t{input.num_rows} * input.num_outputs, NAN);
  const MatmulArguments arguments{.weight = &weight,
                                  .a = a.data(),
                                  .a_type = backend.type,
                                  .a_stride = input.depth,
                                  .bias = input.has_bias ? input.bias.data() : nullptr,
                                  .c = c.data(),
                                  .c_stride = input.num_outputs,
                                  .num_rows = input.num_rows,
                                  .isa = backend.isa};
  run_tasks(arguments, matmul_num_tasks(arguments), matmul_run_task);
  return c;
}

// Without a GPU cuBLASLt is its twin: descriptors and calls are the worker's own, sums are not.
std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  constexpr std::size_t kWorkspaceBytes = 1 << 16;
  DeviceArray<char> memory(std::vector<char>(kWorkspaceBytes + 256));
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  cuda::CublasGemms products(memory.data() + (256 - address % 256), kWorkspaceBytes);
  TypedBuffer a(backend.type, input.a), weight(backend.type, input.weight);
  DeviceArray<float> bias(input.bias),
      c(std::vector<float>(std::size_t{input.num_rows} * input.num_outputs, NAN));
  products.run(
      {.num_tokens = input.num_rows,
       .num_outputs = input.num_outputs,
       .depth = input.depth,
       .type = backend.type,
       .c_type = DataType::kF32,
       .has_bias = input.has_bias,
       .is_exact = backend.type == DataType::kF32},
      {.a = a.data(), .weight = weight.data(), .bias = input.has_bias ? bias.data() : nullptr, .c = c.data()},
      nullptr);
  return c.values();
}

// In units of |a|·|weight|, which is what sums in f32 are relative to.
double worst_against_f64(const Input& input, const std::vector<float>& c) {
  double worst = 0.0;
  for (std::size_t row = 0; row < input.num_rows; ++row) {
    for (std::size_t n = 0; n < input.num_outputs; ++n) {
      double sum = input.has_bias ? input.bias[n] : 0.0, size = std::abs(sum) + 1e-30;
      for (std::size_t k = 0; k < input.depth; ++k) {
        const double product = double{input.a[row * input.depth + k]} * input.weight[n * input.depth + k];
        sum += product;
        size += std::abs(product);
      }
      const double error = std::abs(c[row * input.num_outputs + n] - sum) / size;
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE(
    "matmul: equals f64 within 2e-6 of the sum of magnitudes, with or without a bias; no rows are no work") {
  struct Size {
    std::uint32_t rows, outputs, depth;
  };
  on_every_backend([](const OperatorBackend& backend) {
    for (const auto& [rows, outputs, depth] : {Size{0, 8, 16}, {1, 16, 8}, {3, 40, 129}, {17, 64, 264}}) {
      for (const bool has_bias : {false, true}) {
        CAPTURE(rows);
        CAPTURE(has_bias);
        const Input input(backend, rows, outputs, depth, has_bias);
        CHECK(worst_against_f64(input, backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input)) <=
              2e-6);
      }
    }
  });
}
