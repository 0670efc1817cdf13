// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/matmul.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace amx_matmul_test {
namespace {

constexpr std::size_t kOutputs = 135;  // of panels: four and a part of the fifth

bool has_amx() {
  if (is_supported(Isa::kAmx)) return true;
  MESSAGE("SKIPPED: no AMX");
  return false;
}

struct Inputs {
  Inputs(std::size_t num_rows, std::size_t num_inputs, std::vector<float> a_values, bool has_bias)
      : rows(num_rows), inputs(num_inputs), a(to_bf16(a_values)), w(to_bf16(weights_of(num_inputs))) {
    if (has_bias) bias = random_values(kOutputs, 3);
    weight = PackedMatrix({{w.data(), DataType::kBF16, kOutputs}}, inputs, BlockFormat::kBF16);
    weight.pack();
  }
  // One output in three has large weights, one small ones.
  static std::vector<float> weights_of(std::size_t num_inputs) {
    auto values = random_values(kOutputs * num_inputs, 2);
    constexpr float kScales[] = {1.0F, 0x1p100F, 0x1p-70F};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= kScales[i / num_inputs % 3];
    return values;
  }
  std::size_t rows, inputs;
  std::vector<std::uint16_t> a, w;
  std::vector<float> bias;
  PackedMatrix weight;
};

std::vector<float> run(const Inputs& in, std::size_t first_row, std::size_t num_rows) {
  const std::size_t stride = kOutputs + 3;
  std::vector<float> c(num_rows * stride, -7.0F);
  const MatmulArguments arguments{.weight = &in.weight,
                                  .a = in.a.data() + first_row * in.inputs,
                                  .a_type = DataType::kBF16,
                                  .a_stride = in.inputs,
                                  .bias = in.bias.empty() ? nullptr : in.bias.data(),
                                  .c = c.data(),
                                  .c_stride = stride,
                                  .num_rows = num_rows,
                                  .num_threads = 2,
                                  .isa = Isa::kAmx};
  for (std::size_t task = matmul_num_tasks(arguments); task-- > 0;) matmul_run_task(arguments, task);
  std::vector<float> dense;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const auto begin = c.begin() + static_cast<std::ptrdiff_t>(row * stride);
    dense.insert(dense.end(), begin, begin + kOutputs);
    for (std::size_t j = kOutputs; j < stride; ++j) REQUIRE(c[row * stride + j] == -7.0F);
  }
  return dense;
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}
float fused(float x, float y, float sum) { return flushed(std::fma(flushed(x), flushed(y), flushed(sum))); }
float added(float x, float y) { return flushed(flushed(x) + flushed(y)); }

// The order of gpu/cpu/kernels/vector/amx/amx_tile.hpp, one output at a time.
std::vector<float> in_order(const Inputs& in) {
  const auto a = to_f32(in.a), w = to_f32(in.w);
  std::vector<float> c;
  for (std::size_t row = 0; row < in.rows; ++row) {
    for (std::size_t n = 0; n < kOutputs; ++n) {
      const float *x = &a[row * in.inputs], *y = &w[n * in.inputs];
      float sum = in.bias.empty() ? 0.0F : in.bias[n];
      for (std::size_t first = 0; first < in.inputs; first += 32) {
        float parts[2] = {0.0F, 0.0F};
        for (std::size_t k = first; k < first + 32; ++k) {
          const bool is_there = k < in.inputs;
          parts[k % 2] = fused(is_there ? x[k] : 0.0F, is_there ? y[k] : 0.0F, parts[k % 2]);
        }
        sum = added(sum, added(parts[0], parts[1]));
      }
      c.push_back(sum);
    }
  }
  return c;
}

// NaN equals NaN, with any payload.
std::size_t num_different(const std::vector<float>& left, const std::vector<float>& right) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool are_nan = std::isnan(left[i]) && std::isnan(right[i]);
    count += !are_nan && std::bit_cast<std::uint32_t>(left[i]) != std::bit_cast<std::uint32_t>(right[i]);
  }
  return count;
}

}  // namespace

TEST_CASE("matmul on AMX: bf16 rows have the documented order's bits, few or many") {
  if (!has_amx()) return;
  for (const std::size_t inputs : {1, 32, 33, 64, 100, 1000, 4200}) {
    for (const std::size_t rows : {1, 2, 3, 4, 5, 16, 17, 33, 70}) {
      for (const bool has_bias : {false, true}) {
        if (inputs > 1000 && (rows > 5 || has_bias)) continue;  // for chunks of few rows
        CAPTURE(inputs);
        CAPTURE(rows);
        CAPTURE(has_bias);
        const Inputs in(rows, inputs, random_values(rows * inputs, 1), has_bias);
        CHECK(num_different(in_order(in), run(in, 0, rows)) == 0);
      }
    }
  }
}

TEST_CASE("matmul on AMX: subnormals are zeros of their sign, infinities stay, few rows or many") {
  if (!has_amx()) return;
  constexpr std::size_t kInputs = 100;
  // Products with small weights are subnormal or around the least normal number, rows themselves are
  // subnormal, products with large weights overflow.
  for (const float scale : {0x1p-54F, 0x1p-58F, 0x1p-75F, 0x1p-130F, 0x1p120F}) {
    auto values = random_values(33 * kInputs, 1, scale);
    values[7 * kInputs + 9] = std::numeric_limits<float>::infinity();
    values[8 * kInputs + 40] = std::numeric_limits<float>::quiet_NaN();
    CAPTURE(scale);
    const Inputs in(33, kInputs, values, false);
    const auto expected = in_order(in);
    CHECK(num_different(expected, run(in, 0, 33)) == 0);
    for (std::size_t row = 0; row < 33; row += 3) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(row * kOutputs);
      CHECK(num_different({begin, begin + 3 * kOutputs}, run(in, row, 3)) == 0);
    }
  }
}

TEST_CASE("matmul on AMX: a product leaves the thread's subnormals as they were") {
  if (!has_amx()) return;
  for (const std::size_t rows : {1, 4}) {
    const Inputs in(rows, 64, random_values(rows * 64, 1), false);
    run(in, 0, rows);
    const volatile float least = std::numeric_limits<float>::min();
    CHECK(least / 2.0F > 0.0F);
  }
}

TEST_CASE("matmul on AMX: weights of the next panel that are no numbers stay there") {
  if (!has_amx()) return;
  constexpr std::size_t kInputs = 34;
  std::vector<std::uint16_t> w(64 * kInputs, 0x3F80);
  std::fill(w.begin() + 32 * kInputs, w.end(), std::uint16_t{0x7FC0});
  PackedMatrix weight({{w.data(), DataType::kBF16, 64}}, kInputs, BlockFormat::kBF16);
  weight.pack();
  const std::vector<std::uint16_t> a(20 * kInputs, 0x3F80);
  for (const std::size_t rows : {1, 4, 20}) {
    std::vector<float> c(rows * 64);
    const MatmulArguments arguments{.weight = &weight,
                                    .a = a.data(),
                                    .a_type = DataType::kBF16,
                                    .a_stride = kInputs,
                                    .c = c.data(),
                                    .c_stride = 64,
                                    .num_rows = rows,
                                    .isa = Isa::kAmx};
    for (std::size_t task = matmul_num_tasks(arguments); task-- > 0;) matmul_run_task(arguments, task);
    for (std::size_t i = 0; i < c.size(); ++i) CHECK((i % 64 < 32 ? c[i] == 34.0F : std::isnan(c[i])));
  }
}

}  // namespace amx_matmul_test
