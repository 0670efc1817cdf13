// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/residual_gemm.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"
#include "tests/gpu/cuda/kernels/few_token_operands.hpp"

using namespace troupe;

namespace {

struct Stream {
  std::vector<float> x, next_a, next_squares;
};

// x lies two elements further apart than it is wide, next_a eight.
struct Widths {
  explicit Widths(const FewTokenCase& c)
      : x(c.outputs + 2), next_a(c.outputs + 8), squares(cuda::num_square_parts(c.outputs)) {}
  std::size_t x, next_a, squares;
};

Stream add_product(const FewTokenCase& c, FewTokenOperands& operands, const std::vector<float>& before,
                   const std::vector<float>& norm_weight) {
  const cuda::FewTokenInput input = operands.input();
  const Widths widths(c);
  DeviceArray<float> x(before), weight(norm_weight),
      squares(std::vector<float>(input.num_tokens * widths.squares, -1.0F));
  TypedBuffer next_a(c.type, std::vector<float>(input.num_tokens * widths.next_a, 7.0F));
  cuda::launch_residual_gemm({.input = input,
                              .x = x.data(),
                              .x_stride = widths.x,
                              .norm_weight = weight.data(),
                              .next_a = next_a.data(),
                              .next_a_stride = widths.next_a,
                              .next_squares = squares.data()},
                             nullptr);
  return {x.values(), next_a.values(), squares.values()};
}

void check_against_f64(const FewTokenCase& c) {
  CAPTURE(c.tokens);
  CAPTURE(c.outputs);
  const Widths widths(c);
  FewTokenOperands operands(c);
  const auto before = random_values(c.tokens * widths.x, 5);
  const auto norm_weight = random_values(c.outputs, 6);
  const Stream after = add_product(c, operands, before, norm_weight);
  const auto sums = operands.sums();
  double worst_x = 0.0, worst_next = 0.0, worst_squares = 0.0;
  for (std::size_t token = 0; token < c.tokens; ++token) {
    std::vector<double> squares(widths.squares);
    for (std::size_t i = 0; i < c.outputs; ++i) {
      const double x = before[token * widths.x + i] + sums[token * c.outputs + i];
      squares[i / cuda::kColumnsOfSquares] += x * x;
      worst_x = std::max(worst_x, error_of(after.x[token * widths.x + i], x));
      worst_next =
          std::max(worst_next, error_of(after.next_a[token * widths.next_a + i], x * norm_weight[i]));
    }
    CHECK(after.x[token * widths.x + c.outputs] == before[token * widths.x + c.outputs]);
    CHECK(after.next_a[token * widths.next_a + c.outputs] == 7.0F);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      worst_squares =
          std::max(worst_squares, error_of(after.next_squares[token * widths.squares + i], squares[i]));
    }
  }
  CHECK(worst_x < 1e-5);
  CHECK(worst_next < rounding_of(c.type) + 1e-5);
  CHECK(worst_squares < 1e-4);
}

}  // namespace

TEST_CASE(
    "cuda residual product: equals f64, whatever the numbers of tokens "
    "and outputs") {
  check_against_f64({1, 32, 64});
  check_against_f64({1, 1, 8, true});
  check_against_f64({8, 40, 2056, true});  // blocks share the depth
  check_against_f64({9, 33, 136});
  check_against_f64({17, 96, 40, true});
  check_against_f64({40, 33, 72});
  check_against_f64({64, 130, 24, true});
  check_against_f64({3, 40, 72, true, false, DataType::kF16});
  check_against_f64({0, 32, 64});
}

TEST_CASE("cuda residual product: any order of threads gives the same") {
  in_several_orders([] { check_against_f64({10, 40, 136, true}); });
}

TEST_CASE("cuda residual product: a token has the same bits alone and among others") {
  const FewTokenCase c{8, 40, 1032, true};
  const Widths widths(c);
  const auto before = random_values(c.tokens * widths.x, 5);
  const auto norm_weight = random_values(c.outputs, 6);
  FewTokenOperands all(c), last(c, 7, 1);
  const Stream of_all = add_product(c, all, before, norm_weight);
  const Stream of_last =
      add_product(c, last, {before.end() - static_cast<std::ptrdiff_t>(widths.x), before.end()}, norm_weight);
  CHECK(same_bits(of_last.x.data(), &of_all.x[7 * widths.x], c.outputs));
  CHECK(same_bits(of_last.next_a.data(), &of_all.next_a[7 * widths.next_a], c.outputs));
  CHECK(same_bits(of_last.next_squares.data(), &of_all.next_squares[7 * widths.squares], widths.squares));
}

TEST_CASE(
    "cuda residual product: with the next product, does what the RMSNorm "
    "between did") {
  for (const std::uint32_t tokens : {1U, 8U, 17U}) {
    CAPTURE(tokens);
    const FewTokenCase first{tokens, 72, 40, true}, second{tokens, 48, 72};
    FewTokenOperands operands(first), next(second);
    const Widths widths(first);
    const auto before = random_values(tokens * widths.x, 5);
    const auto norm_weight = random_values(first.outputs, 6);
    const Stream after = add_product(first, operands, before, norm_weight);
    TypedBuffer a(DataType::kBF16, after.next_a), normed(DataType::kBF16, std::vector<float>(tokens * 72));
    DeviceArray<float> squares(after.next_squares), x(after.x), weight(norm_weight),
        fused(std::vector<float>(tokens * 48)), unfused(std::vector<float>(tokens * 48));

    cuda::FewTokenInput input = next.input();
    input.a = a.data();
    input.a_stride = widths.next_a;
    input.squares = squares.data();
    cuda::launch_few_token_gemm({.input = input, .c = fused.data(), .c_stride = 48, .c_type = DataType::kF32},
                                nullptr);
    cuda::launch_rms_norm({.x = x.data(),
                           .x_stride = widths.x,
                           .weight = weight.data(),
                           .normed = normed.data(),
                           .normed_stride = 72,
                           .type = DataType::kBF16,
                           .num_rows = tokens,
                           .width = 72,
                           .epsilon = input.epsilon},
                          nullptr);
    input.a = normed.data();
    input.a_stride = 72;
    input.squares = nullptr;
    cuda::launch_few_token_gemm(
        {.input = input, .c = unfused.data(), .c_stride = 48, .c_type = DataType::kF32}, nullptr);
    double worst = 0.0;
    const auto left = fused.values(), right = unfused.values();
    for (std::size_t i = 0; i < left.size(); ++i) {
      worst = std::max(worst, error_of(left[i], right[i]));
    }
    // 72 terms, each rounded once in both.
    CHECK(worst < 4 * std::sqrt(72.0) * rounding_of(DataType::kBF16));
  }
}
