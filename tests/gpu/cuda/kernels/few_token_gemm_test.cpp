// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/gpu/cuda/kernels/few_token_operands.hpp"

using namespace troupe;

namespace few_token_gemm_test {
namespace {

constexpr std::size_t kPadding = 3;  // elements between rows of c

std::vector<float> multiply(const FewTokenCase& c, FewTokenOperands& operands, DataType c_type) {
  const cuda::FewTokenInput input = operands.input();
  const std::size_t stride = c.outputs + kPadding;
  TypedBuffer sums(c_type, std::vector<float>(input.num_tokens * stride, 7.0F));
  cuda::launch_few_token_gemm({.input = input, .c = sums.data(), .c_stride = stride, .c_type = c_type},
                              nullptr);
  return sums.values();
}

double worst_against_f64(const FewTokenCase& c, DataType c_type) {
  FewTokenOperands operands(c);
  const auto values = multiply(c, operands, c_type);
  const auto expected = operands.sums();
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t token = i / (c.outputs + kPadding), output = i % (c.outputs + kPadding);
    const bool is_padding = output >= c.outputs;
    worst = std::max(worst, error_of(values[i], is_padding ? 7.0F : expected[token * c.outputs + output]));
  }
  return worst;
}

}  // namespace

TEST_CASE(
    "cuda few-token product: equals f64, whatever the numbers of tokens "
    "and outputs") {
  const double allowed = rounding_of(DataType::kBF16) + 1e-5;
  for (const auto& c : {
           FewTokenCase{1, 16, 32},
           FewTokenCase{1, 1, 8},
           FewTokenCase{2, 40, 264, true},
           FewTokenCase{8, 33, 1544},  // more stages than the ring has
           FewTokenCase{9, 70, 64, true},
           FewTokenCase{16, 33, 776, true},
           FewTokenCase{17, 130, 40, true, true},
           FewTokenCase{33, 37, 328, true},
           FewTokenCase{64, 129, 72, false, true},
           FewTokenCase{9, 16, 0, true},
           FewTokenCase{0, 16, 32},
       }) {
    CAPTURE(c.tokens);
    CAPTURE(c.outputs);
    CHECK(worst_against_f64(c, DataType::kBF16) < allowed);
    CHECK(worst_against_f64(c, DataType::kF32) < 2e-5);
  }
}

TEST_CASE("cuda few-token product: in f16") {
  const FewTokenCase c{10, 40, 136, true, true, DataType::kF16};
  CHECK(worst_against_f64(c, DataType::kF16) < rounding_of(DataType::kF16) + 1e-5);
  CHECK(worst_against_f64(c, DataType::kF32) < 1e-5);
}

TEST_CASE(
    "cuda few-token product: blocks that share a depth leave the "
    "workspace ready") {
  for (const auto& c : {FewTokenCase{3, 40, 2056, true, true}, FewTokenCase{20, 20, 776}}) {
    FewTokenOperands operands(c);
    const auto first = multiply(c, operands, DataType::kF32);
    const auto second = multiply(c, operands, DataType::kF32);
    CHECK(worst_against_f64(c, DataType::kF32) < 1e-5);
    CHECK(same_bits(first.data(), second.data(), first.size()));
  }
}

TEST_CASE("cuda few-token product: weights read ahead are the same weights") {
  const FewTokenCase c{20, 40, 776, true, true};
  FewTokenOperands operands(c);
  const auto expected = multiply(c, operands, DataType::kF32);
  TypedBuffer sums(DataType::kF32, std::vector<float>(expected.size(), 7.0F));
  cuda::FewTokenInput input = operands.input();
  input.overlaps_previous = true;
  cuda::launch_few_token_gemm(
      {.input = input, .c = sums.data(), .c_stride = c.outputs + kPadding, .c_type = DataType::kF32},
      nullptr);
  CHECK(same_bits(sums.values().data(), expected.data(), expected.size()));
}

TEST_CASE("cuda few-token product: any order of threads gives the same") {
  in_several_orders([] {
    CHECK(worst_against_f64({10, 20, 520}, DataType::kF32) < 1e-5);
    CHECK(worst_against_f64({2, 20, 2056, true, true}, DataType::kF32) < 1e-5);
  });
}

TEST_CASE(
    "cuda few-token product: a token has the same bits alone and among "
    "others") {
  struct Few {
    std::uint32_t together, alone;  // both of one kind of kernel
  };
  for (const auto& [together, alone] : {Few{8, 1}, Few{16, 9}, Few{32, 17}, Few{64, 33}}) {
    const FewTokenCase c{together, 40, 1032, true, true};
    FewTokenOperands all(c), some(c, together - alone, alone);
    const auto of_all = multiply(c, all, DataType::kF32);
    const auto of_some = multiply(c, some, DataType::kF32);
    CHECK(same_bits(of_some.data(), &of_all[of_all.size() - of_some.size()], of_some.size()));
  }
}

TEST_CASE("cuda few-token product: what does not fit is refused in words") {
  CHECK_THROWS_WITH_AS(cuda::launch_few_token_gemm({.input = {.num_tokens = 65}}, nullptr),
                       "a product of few tokens takes at most 64, not 65", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cuda::launch_few_token_gemm({.input = {.num_tokens = 1, .depth = 12}}, nullptr),
                       "a product of few tokens wants rows at multiples of 16 bytes and a depth "
                       "that is a multiple of 8, not 12",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      cuda::launch_few_token_gemm(
          {.input = {.type = DataType::kF32, .num_tokens = 1, .depth = 8}, .c_type = DataType::kF32},
          nullptr),
      "a product of few tokens multiplies bf16 or f16, not f32", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cuda::launch_few_token_gemm({.input = {}, .c_type = DataType::kF16}, nullptr),
                       "a product of few tokens is stored in f32 or the type of what is "
                       "multiplied, not in f16",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      cuda::launch_few_token_gemm({.input = {.num_tokens = 1, .num_outputs = 8, .depth = 4096}}, nullptr),
      "a product of few tokens whose blocks share the depth wants a workspace", std::invalid_argument);
}

}  // namespace few_token_gemm_test
