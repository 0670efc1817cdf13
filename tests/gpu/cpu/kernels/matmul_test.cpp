// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/matmul.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

struct Product {
  std::size_t rows, outputs, inputs;
  DataType weight_type, a_type;
  bool has_bias = false;
};

// Finite f16: near 0.05, and one of eight is subnormal or zero.
std::vector<std::uint16_t> random_f16(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) {
    const auto bits = static_cast<std::uint32_t>(generator());
    const bool is_normal = (bits >> 16 & 7U) != 0;
    value = static_cast<std::uint16_t>(is_normal ? (bits & 0x8FFFU) | 0x2400U : bits & 0x83FFU);
  }
  return values;
}

// Inputs are rounded to the types they are passed in, so that a reference in
// f64 differs by the order of sums only.
struct Inputs {
  explicit Inputs(const Product& p, std::uint32_t seed = 1)
      : a(random_values(p.rows * p.inputs, seed)),
        w(random_values(p.outputs * p.inputs, seed + 1)),
        bias(random_values(p.outputs, seed + 2)) {
    if (p.a_type == DataType::kBF16) a = to_f32(a_bf16 = to_bf16(a));
    if (p.weight_type == DataType::kBF16) w = to_f32(to_bf16(w));
    if (p.weight_type == DataType::kF16) {
      w_f16 = random_f16(w.size(), seed + 1);
      convert_to_f32(DataType::kF16, w_f16.data(), w.data(), w.size());
    }
    weight = PackedMatrix({source(p.weight_type, p.outputs)}, p.inputs, format_of(p.weight_type));
    weight.pack();
  }
  MatrixSource source(DataType type, std::size_t num_rows) const {
    if (type == DataType::kF16) return {w_f16.data(), DataType::kF16, num_rows};
    return {w.data(), DataType::kF32, num_rows};
  }
  std::vector<float> a, w, bias;
  std::vector<std::uint16_t> a_bf16, w_f16;
  PackedMatrix weight;
};

std::vector<float> run(const Product& p, const Inputs& in, Isa isa, std::size_t first_row,
                       std::size_t num_rows, std::size_t num_threads = 1) {
  const std::size_t stride = p.outputs + 3;
  std::vector<float> c(num_rows * stride, -7.0F);
  const bool is_bf16 = p.a_type == DataType::kBF16;
  const MatmulArguments arguments{.weight = &in.weight,
                                  .a = is_bf16
                                           ? static_cast<const void*>(in.a_bf16.data() + first_row * p.inputs)
                                           : in.a.data() + first_row * p.inputs,
                                  .a_type = p.a_type,
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
    dense.insert(dense.end(), c.begin() + row * stride, c.begin() + row * stride + p.outputs);
    for (std::size_t j = p.outputs; j < stride; ++j) REQUIRE(c[row * stride + j] == -7.0F);
  }
  return dense;
}

// The largest error in units of |a|·|w|, which is what f32 sums are relative to.
double largest_error(const Product& p, const Inputs& in, const std::vector<float>& c) {
  double worst = 0.0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    for (std::size_t n = 0; n < p.outputs; ++n) {
      double sum = p.has_bias ? in.bias[n] : 0.0;
      double size = std::abs(sum) + 1e-30;
      for (std::size_t k = 0; k < p.inputs; ++k) {
        const double product = double{in.a[row * p.inputs + k]} * in.w[n * p.inputs + k];
        sum += product;
        size += std::abs(product);
      }
      worst = std::max(worst, std::abs(c[row * p.outputs + n] - sum) / size);
    }
  }
  return worst;
}

struct Types {
  DataType weight, a;
};
const Types kTypes[] = {{DataType::kF32, DataType::kF32},  {DataType::kF32, DataType::kBF16},
                        {DataType::kF16, DataType::kF32},  {DataType::kF16, DataType::kBF16},
                        {DataType::kBF16, DataType::kF32}, {DataType::kBF16, DataType::kBF16}};

}  // namespace

TEST_CASE("matmul: equals f64 within 2e-6 of the sum of magnitudes, any shape and type") {
  const Product shapes[] = {{1, 1, 1, {}, {}},      {1, 33, 7, {}, {}},          {2, 31, 64, {}, {}},
                            {3, 64, 65, {}, {}},    {5, 100, 129, {}, {}},       {7, 257, 40, {}, {}, true},
                            {14, 96, 600, {}, {}},  {15, 70, 513, {}, {}, true}, {29, 160, 1030, {}, {}},
                            {1, 130, 9001, {}, {}}, {4, 48, 5000, {}, {}}};
  for (const Isa isa : supported_isas()) {
    for (const auto& types : kTypes) {
      for (Product p : shapes) {
        p.weight_type = types.weight;
        p.a_type = types.a;
        CAPTURE(name_of(isa));
        CAPTURE(name_of(p.weight_type));
        CAPTURE(name_of(p.a_type));
        CAPTURE(p.rows);
        CAPTURE(p.outputs);
        CAPTURE(p.inputs);
        const Inputs in(p);
        CHECK(largest_error(p, in, run(p, in, isa, 0, p.rows)) < 2e-6);
      }
    }
  }
}

TEST_CASE("matmul: a row has the same bits alone, among 31 others, in chunks, on any threads") {
  for (const Isa isa : supported_isas()) {
    for (const auto& types : kTypes) {
      for (const std::size_t inputs : {64, 257, 1400}) {
        CAPTURE(name_of(isa));
        CAPTURE(inputs);
        const Product p{80, 135, inputs, types.weight, types.a, true};
        const Inputs in(p);
        const auto all = run(p, in, isa, 0, p.rows);
        for (const std::size_t threads : {2, 3, 16}) {
          CHECK(same_bits(all.data(), run(p, in, isa, 0, p.rows, threads).data(), all.size()));
        }
        for (const std::size_t chunk : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 32, 45}) {
          for (std::size_t row = 0; row < p.rows; row += chunk) {
            const std::size_t rows = std::min(chunk, p.rows - row);
            const auto part = run(p, in, isa, row, rows, 2);
            REQUIRE(same_bits(all.data() + row * p.outputs, part.data(), part.size()));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: weights in f16 give the bits of the same values in f32, in half the bytes") {
  for (const Isa isa : supported_isas()) {
    for (const DataType a_type : {DataType::kF32, DataType::kBF16}) {
      for (const std::size_t inputs : {1, 7, 64, 257, 1400, 5001}) {
        for (const bool has_bias : {false, true}) {
          CAPTURE(name_of(isa));
          CAPTURE(name_of(a_type));
          CAPTURE(inputs);
          CAPTURE(has_bias);
          const Product p{17, 135, inputs, DataType::kF16, a_type, has_bias};
          Inputs in(p);
          std::vector<std::vector<float>> of_f16;
          for (std::size_t rows = 1; rows <= p.rows; ++rows) of_f16.push_back(run(p, in, isa, 0, rows));
          const std::size_t f16_bytes = in.weight.size_bytes();
          in.weight = PackedMatrix({in.source(DataType::kF32, p.outputs)}, inputs, BlockFormat::kF32);
          in.weight.pack();
          CHECK(2 * f16_bytes == in.weight.size_bytes());
          for (const auto& found : of_f16) {
            const auto of_f32 = run(p, in, isa, 0, found.size() / p.outputs);
            REQUIRE(same_bits(found.data(), of_f32.data(), of_f32.size()));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: values of other types are not rounded to f16") {
  const auto values = random_values(3 * 8, 1);
  const auto halves = random_f16(8, 2);
  const std::vector<MatrixSource> sources = {{halves.data(), DataType::kF16, 1},
                                             {values.data(), DataType::kF32, 3}};
  CHECK_THROWS_AS(PackedMatrix(sources, 8, BlockFormat::kF16), std::logic_error);
}

TEST_CASE("matmul: no rows are no tasks") {
  const Product p{1, 40, 16, DataType::kF32, DataType::kF32};
  const Inputs in(p);
  CHECK(matmul_num_tasks({.weight = &in.weight, .num_rows = 0}) == 0);
}

TEST_CASE("matmul: stacked sources of other types and strides are one weight") {
  const std::size_t inputs = 37;
  const auto first = random_values(5 * inputs, 1);
  const auto second = to_bf16(random_values(40 * (inputs + 2), 2));
  const std::vector<std::uint16_t> half{0x3C00, 0x4000};  // 1, 2 in f16
  std::vector<std::uint16_t> third(3 * inputs);
  for (std::size_t i = 0; i < third.size(); ++i) third[i] = half[i % 2];
  PackedMatrix weight({{first.data(), DataType::kF32, 5},
                       {second.data(), DataType::kBF16, 40, inputs + 2},
                       {third.data(), DataType::kF16, 3}},
                      inputs, BlockFormat::kF32);
  weight.pack();
  REQUIRE(weight.num_outputs() == 48);
  const auto second_f32 = to_f32(second);
  std::vector<float> a(inputs, 0.0F), c(48);
  a[36] = 1.0F;  // picks the last column
  const MatmulArguments arguments{
      .weight = &weight, .a = a.data(), .a_stride = inputs, .c = c.data(), .c_stride = 48, .num_rows = 1};
  for (std::size_t task = 0; task < matmul_num_tasks(arguments); ++task) matmul_run_task(arguments, task);
  for (std::size_t n = 0; n < 5; ++n) CHECK(c[n] == first[n * inputs + 36]);
  for (std::size_t n = 0; n < 40; ++n) CHECK(c[5 + n] == second_f32[n * (inputs + 2) + 36]);
  CHECK(c[45] == 1.0F);
  CHECK(c[46] == 2.0F);
}

TEST_CASE("matmul: rows that are given some panels at a time are packed as those given at once") {
  constexpr std::size_t kOutputs = 353, kInputs = 37;
  const auto values = random_values(kOutputs * kInputs, 9);
  const auto halves = random_f16(kOutputs * kInputs, 9);
  for (const BlockFormat format :
       {BlockFormat::kF32, BlockFormat::kF16, BlockFormat::kBF16, BlockFormat::kQ8_0}) {
    const auto rows = [&](std::size_t first, std::size_t count) {
      if (format == BlockFormat::kF16)
        return MatrixSource{halves.data() + first * kInputs, DataType::kF16, count};
      return MatrixSource{values.data() + first * kInputs, DataType::kF32, count};
    };
    PackedMatrix at_once({rows(0, kOutputs)}, kInputs, format), by_turns(kOutputs, kInputs, format);
    at_once.pack();
    CHECK(at_once.num_pack_tasks() == 2);
    for (const auto& sources : {std::vector<MatrixSource>{rows(0, 16), rows(16, 16)},
                                {rows(32, 288)},
                                {rows(320, 1), rows(321, 32)}}) {
      by_turns.set_sources(sources);
      by_turns.pack();
    }
    REQUIRE(by_turns.size_bytes() == at_once.size_bytes());
    CHECK(std::memcmp(by_turns.panel(0), at_once.panel(0), at_once.size_bytes()) == 0);
    CHECK_THROWS_AS(by_turns.set_sources({rows(0, 1)}), std::logic_error);
    PackedMatrix in_panels(64, kInputs, format);
    in_panels.set_sources({rows(0, 16)});
    CHECK_THROWS_AS(in_panels.set_sources({rows(16, 16)}), std::logic_error);
  }
}

TEST_CASE("matmul: odd K never multiplies what lies behind a row") {
  const std::size_t inputs = 5;
  const auto w = random_values(3 * inputs, 1);
  PackedMatrix weight({{w.data(), DataType::kF32, 3}}, inputs, BlockFormat::kBF16);
  weight.pack();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{1, 2, 3, 4, 5, nan};
  const auto bf16 = to_bf16(values);
  for (const Isa isa : supported_isas()) {
    float c[3];
    for (const bool is_bf16 : {false, true}) {
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
