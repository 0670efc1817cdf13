// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/few_token_product.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Shape {
  std::uint32_t tokens, outputs, depth;
  bool has_bias = false;
};

struct Inputs {
  explicit Inputs(const Shape& shape)
      : a(as_stored(DataType::kBF16, random_values(shape.tokens * shape.depth, 1))),
        weight(as_stored(DataType::kBF16, random_values(shape.outputs * shape.depth, 2))),
        bias(random_values(shape.outputs, 3)) {}
  std::vector<float> a, weight, bias;
};

// Rows of c lie three elements further apart than they are long.
std::vector<float> multiply(const Shape& shape, const Inputs& inputs, DataType c_type) {
  const std::size_t c_stride = shape.outputs + 3;
  TypedBuffer a(DataType::kBF16, inputs.a), weight(DataType::kBF16, inputs.weight),
      bias(DataType::kF32, inputs.bias),
      c(c_type, std::vector<float>(shape.tokens * c_stride, 7.0F));
  cuda::launch_few_token_product(
      {.a = a.data(),
       .a_stride = shape.depth,
       .weight = weight.data(),
       .weight_stride = shape.depth,
       .bias = shape.has_bias ? static_cast<const float*>(bias.data()) : nullptr,
       .c = c.data(),
       .c_stride = c_stride,
       .c_type = c_type,
       .num_tokens = shape.tokens,
       .num_outputs = shape.outputs,
       .depth = shape.depth},
      nullptr);
  return c.values();
}

double worst_against_f64(const Shape& shape, DataType c_type) {
  const Inputs inputs(shape);
  const auto c = multiply(shape, inputs, c_type);
  const std::size_t stride = shape.outputs + 3;
  double worst = 0.0;
  for (std::size_t token = 0; token < shape.tokens; ++token) {
    for (std::size_t output = 0; output < stride; ++output) {
      double expected = output >= shape.outputs ? 7.0 : shape.has_bias ? inputs.bias[output] : 0.0;
      for (std::size_t k = 0; output < shape.outputs && k < shape.depth; ++k) {
        expected +=
            double{inputs.a[token * shape.depth + k]} * inputs.weight[output * shape.depth + k];
      }
      const double error = std::abs(c[token * stride + output] - expected);
      worst = std::max(worst, error / std::max(1.0, std::abs(expected)));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda few-token product: equals f64, whatever the numbers of tokens and outputs") {
  for (const DataType type : kElementTypes) {
    const double allowed = rounding_of(type) + 1e-5;
    CHECK(worst_against_f64({1, 16, 32}, type) < allowed);
    CHECK(worst_against_f64({1, 1, 8}, type) < allowed);
    CHECK(worst_against_f64({3, 40, 264, true}, type) < allowed);
    CHECK(worst_against_f64({8, 17, 64}, type) < allowed);
    CHECK(worst_against_f64({16, 33, 1096, true}, type) < allowed);  // more than one round
    CHECK(worst_against_f64({9, 16, 0, true}, type) < allowed);
    CHECK(worst_against_f64({0, 16, 32}, type) == 0.0);
  }
}

TEST_CASE("cuda few-token product: any order of threads gives the same") {
  in_several_orders([] { CHECK(worst_against_f64({10, 20, 520}, DataType::kF32) < 1e-5); });
}

TEST_CASE("cuda few-token product: a token has the same bits alone and among fifteen others") {
  const Shape shape{16, 20, 264, true};
  const Inputs inputs(shape);
  const auto together = multiply(shape, inputs, DataType::kF32);
  const std::size_t stride = shape.outputs + 3;
  for (const std::size_t token : {0, 7, 8, 15}) {
    Inputs alone = inputs;
    alone.a.assign(inputs.a.begin() + token * shape.depth,
                   inputs.a.begin() + (token + 1) * shape.depth);
    const auto c = multiply({1, shape.outputs, shape.depth, true}, alone, DataType::kF32);
    CHECK(same_bits(c.data(), &together[token * stride], stride));
  }
}

TEST_CASE("cuda few-token product: what does not fit is refused in words") {
  CHECK_THROWS_WITH_AS(cuda::launch_few_token_product({.num_tokens = 17}, nullptr),
                       "a product of few tokens takes at most 16, not 17", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cuda::launch_few_token_product({.num_tokens = 1, .depth = 12}, nullptr),
                       "a product of few tokens wants rows at multiples of 16 bytes and a depth "
                       "that is a multiple of 8, not 12",
                       std::invalid_argument);
}
