// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/layer_norm.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

void run(const LayerNormArguments& arguments) {
  for (std::size_t task = layer_norm_num_tasks(arguments); task-- > 0;) layer_norm_run_task(arguments, task);
}

struct Input {
  std::size_t rows, width;
  std::vector<float> x, residual, weight, bias;

  Input(std::size_t rows, std::size_t width, float offset = 0.0F)
      : rows(rows),
        width(width),
        x(random_values(rows * width, 1, 3.0F)),
        residual(random_values(rows * width, 2)),
        weight(random_values(width, 3)),
        bias(random_values(width, 4)) {
    for (auto& value : x) value += offset;
  }
  LayerNormArguments arguments(Isa isa, float* normed) const {
    return {.x = x.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .normed = normed,
            .num_rows = rows,
            .width = width,
            .epsilon = 1e-12F,
            .isa = isa};
  }
};

void check(const Input& input, bool has_residual, const std::vector<float>& normed) {
  for (std::size_t row = 0; row < input.rows; ++row) {
    std::vector<double> values(input.width);
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < input.width; ++i) {
      const std::size_t at = row * input.width + i;
      values[i] = has_residual ? input.x[at] + input.residual[at] : input.x[at];
      mean += values[i] / static_cast<double>(input.width);
    }
    for (const double value : values)
      variance += (value - mean) * (value - mean) / static_cast<double>(input.width);
    for (std::size_t i = 0; i < input.width; ++i) {
      const double scaled = (values[i] - mean) / std::sqrt(variance + 1e-12) * input.weight[i];
      REQUIRE(std::abs(normed[row * input.width + i] - (scaled + input.bias[i])) <=
              4e-6 * (1.0 + std::abs(scaled)));
    }
  }
}

}  // namespace

TEST_CASE("layer_norm: equals f64 within 4e-6, with and without a residual") {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t width : {8, 15, 64, 100, 384, 2048}) {
      for (const std::size_t rows : {0, 1, 21}) {
        CAPTURE(name_of(isa));
        CAPTURE(width);
        const Input input(rows, width);
        std::vector<float> normed(rows * width);
        auto arguments = input.arguments(isa, normed.data());
        run(arguments);
        check(input, false, normed);
        arguments.residual = input.residual.data();
        run(arguments);
        check(input, true, normed);
      }
    }
  }
}

TEST_CASE("layer_norm: a mean that is large beside the deviation costs no digits") {
  for (const Isa isa : supported_isas()) {
    const Input input(5, 384, 256.0F);  // sums of squares would lose five digits
    std::vector<float> normed(5 * 384);
    run(input.arguments(isa, normed.data()));
    for (std::size_t row = 0; row < 5; ++row) {
      double mean = 0.0, variance = 0.0;
      for (std::size_t i = 0; i < 384; ++i) mean += input.x[row * 384 + i] / 384.0;
      for (std::size_t i = 0; i < 384; ++i) variance += std::pow(input.x[row * 384 + i] - mean, 2.0) / 384.0;
      for (std::size_t i = 0; i < 384; ++i) {
        const double expected =
            (input.x[row * 384 + i] - mean) / std::sqrt(variance) * input.weight[i] + input.bias[i];
        REQUIRE(std::abs(normed[row * 384 + i] - expected) < 1e-4);
      }
    }
  }
}

TEST_CASE("layer_norm: in place or not, alone or among others: the same bits; bf16 is f32 rounded") {
  for (const Isa isa : supported_isas()) {
    const Input input(32, 203);
    std::vector<float> all(32 * 203);
    std::vector<std::uint16_t> rounded(32 * 203);
    auto arguments = input.arguments(isa, all.data());
    arguments.residual = input.residual.data();
    arguments.rounded = rounded.data();
    run(arguments);
    CHECK(rounded == to_bf16(all));
    std::vector<float> in_place = input.residual;
    arguments.residual = arguments.normed = in_place.data();
    run(arguments);
    CHECK(same_bits(in_place.data(), all.data(), all.size()));
    for (std::size_t row = 0; row < 32; ++row) {
      std::vector<float> alone(203);
      auto one = input.arguments(isa, alone.data());
      one.x += row * 203;
      one.residual = input.residual.data() + row * 203;
      one.num_rows = 1;
      run(one);
      REQUIRE(same_bits(alone.data(), &all[row * 203], 203));
    }
  }
}
