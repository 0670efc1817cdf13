// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/gated_gemm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/rows/gated_activation.hpp"
#include "tests/gpu/cuda/kernels/few_token_operands.hpp"

using namespace troupe;

namespace {

constexpr std::size_t kPadding = 8;  // elements between rows of h

std::vector<float> multiply(const FewTokenCase& c, FewTokenOperands& operands) {
  const cuda::FewTokenInput input = operands.input();
  const std::size_t stride = c.outputs / 2 + kPadding;
  TypedBuffer h(c.type, std::vector<float>(input.num_tokens * stride, 7.0F));
  cuda::launch_gated_gemm({.input = input, .h = h.data(), .h_stride = stride}, nullptr);
  return h.values();
}

void check_against_f64(const FewTokenCase& c) {
  CAPTURE(c.tokens);
  CAPTURE(c.outputs);
  FewTokenOperands operands(c);
  const auto h = multiply(c, operands);
  const auto sums = operands.sums();
  const std::size_t width = c.outputs / 2;
  double worst = 0.0;
  for (std::size_t i = 0; i < h.size(); ++i) {
    const std::size_t token = i / (width + kPadding), column = i % (width + kPadding);
    double expected = 7.0;
    if (column < width) {
      const double gate = sums[token * c.outputs + column];
      expected = gate / (1.0 + std::exp(-gate)) * sums[token * c.outputs + width + column];
    }
    worst = std::max(worst, error_of(h[i], expected));
  }
  CHECK(worst < rounding_of(c.type) + 1e-4);
}

}  // namespace

TEST_CASE(
    "cuda gated product: equals f64, whatever the numbers of tokens and "
    "outputs") {
  check_against_f64({1, 32, 64});
  check_against_f64({1, 2, 8, true});
  check_against_f64({8, 40, 2056, true, true});  // blocks share the depth
  check_against_f64({9, 34, 136});
  check_against_f64({16, 34, 136, true});
  check_against_f64({17, 96, 40, true, true});
  check_against_f64({33, 38, 72});
  check_against_f64({64, 260, 24, false, true});
  check_against_f64({3, 40, 72, true, false, DataType::kF16});
  check_against_f64({0, 32, 64});
  check_against_f64({1, 0, 64});
}

TEST_CASE("cuda gated product: any order of threads gives the same") {
  in_several_orders([] { check_against_f64({10, 40, 136, true, true}); });
}

TEST_CASE("cuda gated product: does what the product and the activation did") {
  const FewTokenCase c{12, 48, 72, true, true};
  FewTokenOperands operands(c);
  TypedBuffer gate_up(DataType::kBF16, std::vector<float>(12 * 48)),
      unfused(DataType::kBF16, std::vector<float>(12 * 24));
  cuda::launch_few_token_gemm({.input = operands.input(), .c = gate_up.data(), .c_stride = 48}, nullptr);
  cuda::launch_gated_activation({.gate_up = gate_up.data(),
                                 .gate_up_stride = 48,
                                 .h = unfused.data(),
                                 .h_stride = 24,
                                 .type = DataType::kBF16,
                                 .num_rows = 12,
                                 .width = 24},
                                nullptr);
  const auto fused = multiply(c, operands), expected = unfused.values();
  double worst = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, error_of(fused[i / 24 * (24 + kPadding) + i % 24], expected[i]));
  }
  CHECK(worst < 4 * rounding_of(DataType::kBF16));
}

TEST_CASE("cuda gated product: a token has the same bits alone and among others") {
  const FewTokenCase c{8, 40, 1032, true, true};
  FewTokenOperands all(c), last(c, 7, 1);
  const auto of_all = multiply(c, all), of_last = multiply(c, last);
  CHECK(same_bits(of_last.data(), &of_all[7 * of_last.size()], of_last.size()));
}

TEST_CASE("cuda gated product: an odd number of outputs is refused in words") {
  CHECK_THROWS_WITH_AS(cuda::launch_gated_gemm({.input = {.num_tokens = 1, .num_outputs = 7}}, nullptr),
                       "a gated product wants as many gates as ups, not 7 of both", std::invalid_argument);
}
