// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks of 8 and 4 bits: against f64 on the opened
// weights, bit for bit between batches, and how far the weights are off.
#include "gpu/cpu/kernels/matmul/packed_matrix.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

constexpr Quantization kBoth[] = {Quantization::kQ8, Quantization::kQ4};

PackedMatrix packed(const std::vector<float>& values, std::size_t outputs, std::size_t inputs,
                    Quantization quantization) {
  PackedMatrix matrix({{values.data(), DataType::kF32, outputs}}, inputs, DataType::kBF16, quantization);
  matrix.pack();
  return matrix;
}

// Row by row, read by the layout that quantized_block.hpp describes.
std::vector<float> opened(const PackedMatrix& matrix) {
  const bool is_q8 = matrix.quantization() == Quantization::kQ8;
  std::vector<float> values;
  for (std::size_t n = 0; n < matrix.num_outputs(); ++n) {
    for (std::size_t k = 0; k < matrix.num_inputs(); ++k) {
      const std::byte* block = matrix.panel(n / 32) + k / 32 * (is_q8 ? kQ8BlockBytes : kQ4BlockBytes);
      std::uint16_t scale = 0;
      std::memcpy(&scale, block + n % 32 * 2, 2);
      const std::size_t i = k % 32;
      int whole = 0;
      if (is_q8) {
        whole = static_cast<std::int8_t>(block[64 + i * 32 + n % 32]);
      } else {
        std::uint32_t lane = 0;
        std::memcpy(&lane, block + 64 + i / 8 * 128 + n % 32 * 4, 4);
        whole = static_cast<int>(lane >> (i % 8 / 2 * 4 + i % 2 * 16) & 15);
        if (whole > 7) whole -= 16;
      }
      values.push_back(f32_from_f16(scale) * static_cast<float>(whole));
    }
  }
  return values;
}

double relative_error(const std::vector<float>& values, const std::vector<float>& reference) {
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += std::pow(double{values[i]} - reference[i], 2);
    size += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(squares / size);
}

struct Product {
  std::size_t rows, outputs, inputs;
  Quantization quantization = Quantization::kQ8;
  bool has_bf16_rows = false;
  bool has_bias = false;
};

struct Inputs {
  explicit Inputs(const Product& p)
      : a(random_values(p.rows * p.inputs, 1)),
        bias(random_values(p.outputs, 2)),
        weight(packed(random_values(p.outputs * p.inputs, 3), p.outputs, p.inputs, p.quantization)) {
    if (p.has_bf16_rows) a = to_f32(a_bf16 = to_bf16(a));
  }
  std::vector<float> a, bias;
  std::vector<std::uint16_t> a_bf16;
  PackedMatrix weight;
};

std::vector<float> run(const Product& p, const Inputs& in, Isa isa, std::size_t first_row,
                       std::size_t num_rows, std::size_t num_threads = 1) {
  const std::size_t stride = p.outputs + 3;
  std::vector<float> c(num_rows * stride, -7.0F);
  const std::size_t first = first_row * p.inputs;
  const MatmulArguments arguments{
      .weight = &in.weight,
      .a = p.has_bf16_rows ? static_cast<const void*>(in.a_bf16.data() + first) : in.a.data() + first,
      .a_type = p.has_bf16_rows ? DataType::kBF16 : DataType::kF32,
      .a_stride = p.inputs,
      .bias = p.has_bias ? in.bias.data() : nullptr,
      .c = c.data(),
      .c_stride = stride,
      .num_rows = num_rows,
      .num_threads = num_threads,
      .isa = isa};
  for (std::size_t task = matmul_num_tasks(arguments); task-- > 0;) matmul_run_task(arguments, task);
  std::vector<float> dense;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const auto begin = c.begin() + static_cast<std::ptrdiff_t>(row * stride);
    dense.insert(dense.end(), begin, begin + static_cast<std::ptrdiff_t>(p.outputs));
    for (std::size_t j = p.outputs; j < stride; ++j) REQUIRE(c[row * stride + j] == -7.0F);
  }
  return dense;
}

// The largest error in units of |a|·|w|.
double largest_error(const Product& p, const Inputs& in, const std::vector<float>& c) {
  const auto w = opened(in.weight);
  double worst = 0.0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    for (std::size_t n = 0; n < p.outputs; ++n) {
      double sum = p.has_bias ? in.bias[n] : 0.0;
      double size = std::abs(sum) + 1e-30;
      for (std::size_t k = 0; k < p.inputs; ++k) {
        const double product = double{in.a[row * p.inputs + k]} * w[n * p.inputs + k];
        sum += product;
        size += std::abs(product);
      }
      worst = std::max(worst, std::abs(c[row * p.outputs + n] - sum) / size);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("quantized matmul: equals f64 on the opened weights within 2e-6 of the sum of magnitudes") {
  const Product shapes[] = {{1, 1, 1},     {1, 33, 7},      {2, 31, 64},    {3, 64, 65},
                            {4, 300, 96},  {5, 100, 129},   {7, 257, 40},   {14, 96, 600},
                            {15, 70, 513}, {29, 160, 1030}, {1, 130, 9001}, {140, 48, 200}};
  for (const Isa isa : supported_isas()) {
    for (Product p : shapes) {
      for (const Quantization quantization : kBoth) {
        for (const bool has_bf16_rows : {false, true}) {
          p.quantization = quantization;
          p.has_bf16_rows = has_bf16_rows;
          p.has_bias = p.rows % 2 == 1;
          CAPTURE(name_of(isa));
          CAPTURE(name_of(quantization));
          CAPTURE(has_bf16_rows);
          CAPTURE(p.rows);
          CAPTURE(p.outputs);
          CAPTURE(p.inputs);
          const Inputs in(p);
          CHECK(largest_error(p, in, run(p, in, isa, 0, p.rows)) < 2e-6);
        }
      }
    }
  }
}

TEST_CASE("quantized matmul: a row has the same bits alone, among 31 others, in chunks, on any threads") {
  for (const Isa isa : supported_isas()) {
    for (const Quantization quantization : kBoth) {
      for (const bool has_bf16_rows : {false, true}) {
        for (const std::size_t inputs : {64, 257, 4160}) {
          CAPTURE(name_of(isa));
          CAPTURE(name_of(quantization));
          CAPTURE(inputs);
          const Product p{80, 263, inputs, quantization, has_bf16_rows, true};
          const Inputs in(p);
          const auto all = run(p, in, isa, 0, p.rows);
          for (const std::size_t threads : {2, 3, 16})
            CHECK(same_bits(all.data(), run(p, in, isa, 0, p.rows, threads).data(), all.size()));
          for (const std::size_t chunk : {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 17, 32, 45}) {
            for (std::size_t row = 0; row < p.rows; row += chunk) {
              const auto part = run(p, in, isa, row, std::min(chunk, p.rows - row), 2);
              REQUIRE(same_bits(all.data() + row * p.outputs, part.data(), part.size()));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("quantized weights: normal ones are off by 0.6 % at 8 bits and by 8.3 % at 4") {
  const std::size_t outputs = 64, inputs = 1024;
  const auto values = random_values(outputs * inputs, 5, 0.02F);
  const double of_q8 = relative_error(opened(packed(values, outputs, inputs, Quantization::kQ8)), values);
  const double of_q4 = relative_error(opened(packed(values, outputs, inputs, Quantization::kQ4)), values);
  MESSAGE("q8 " << of_q8 << ", q4 " << of_q4);
  CHECK(of_q8 < 0.006);
  CHECK(of_q4 < 0.083);
}

TEST_CASE("quantized weights: opened blocks of Q8_0 and Q4_0 are packed again without a change") {
  for (const Quantization quantization : kBoth) {
    const float extreme = quantization == Quantization::kQ8 ? 127.0F : -8.0F;
    std::vector<float> values = random_values(8 * 320, 7, 0.4F * std::abs(extreme));
    const auto scales = random_values(8 * 10, 8, 0.01F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float limit = std::abs(extreme) - 1.0F;
      const float whole = i % 32 == 5 ? extreme : std::clamp(std::round(values[i]), -limit, limit);
      const float scale = std::ldexp(std::round(std::ldexp(scales[i / 32], 16)), -16);  // an f16
      values[i] = whole * scale;
    }
    CHECK(opened(packed(values, 8, 320, quantization)) == values);
  }
}

TEST_CASE("quantized weights: every instruction set finds the same blocks") {
  const auto values = random_values(200 * kBlockInputs, 11, 0.05F);
  for (const Quantization quantization : kBoth) {
    for (std::size_t i = 0; i < values.size(); i += kBlockInputs) {
      QuantizedBlock reference;
      REQUIRE(kernel_table(Isa::kPortable).quantize(quantization, values.data() + i, reference));
      for (const Isa isa : supported_isas()) {
        CAPTURE(name_of(isa));
        QuantizedBlock block;
        REQUIRE(kernel_table(isa).quantize(quantization, values.data() + i, block));
        CHECK(block.scale == reference.scale);
        CHECK(std::equal(block.weights, block.weights + kBlockInputs, reference.weights));
      }
    }
  }
}

TEST_CASE(
    "quantized weights: zeros stay zeros, tiny values keep their sign, what no scale holds is refused") {
  for (const Quantization quantization : kBoth) {
    CHECK(opened(packed(std::vector<float>(64, 0.0F), 2, 32, quantization)) == std::vector<float>(64, 0.0F));
    std::vector<float> tiny(32, 0.0F);
    tiny[3] = -1e-5F;
    const auto kept = opened(packed(tiny, 1, 32, quantization));
    CHECK(kept[3] < 0.0F);
    CHECK(kept[3] > -2e-5F);
    const std::vector<float> huge(32, 1e9F);
    PackedMatrix matrix({{huge.data(), DataType::kF32, 1}}, 32, DataType::kBF16, quantization);
    CHECK_THROWS_AS(matrix.pack(), std::range_error);
  }
}

TEST_CASE("quantized matmul: never multiplies what lies behind a row") {
  const std::size_t inputs = 5;
  const auto w = random_values(3 * inputs, 1);
  const std::vector<float> values{1, 2, 3, 4, 5, std::numeric_limits<float>::quiet_NaN()};
  const auto bf16 = to_bf16(values);
  for (const Quantization quantization : kBoth) {
    const PackedMatrix weight = packed(w, 3, inputs, quantization);
    for (const Isa isa : supported_isas()) {
      for (const bool is_bf16 : {false, true}) {
        float c[3];
        const MatmulArguments arguments{.weight = &weight,
                                        .a = is_bf16 ? static_cast<const void*>(bf16.data()) : values.data(),
                                        .a_type = is_bf16 ? DataType::kBF16 : DataType::kF32,
                                        .a_stride = 6,
                                        .c = c,
                                        .c_stride = 3,
                                        .num_rows = 1,
                                        .isa = isa};
        matmul_run_task(arguments, 0);
        for (const float value : c) CHECK(std::isfinite(value));
      }
    }
  }
}
