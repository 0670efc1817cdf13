// SPDX-License-Identifier: Apache-2.0
// Rows in 8 bits: how far they are off, and that their bits hang on the row alone. Their
// products are in quantized_matmul_test.cpp.
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"
#include "tests/gpu/cpu/kernels/rounded_rows.hpp"

using namespace troupe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("q8 rows: a value is off by half a scale at most, the largest of a block not at all") {
  for (const std::size_t inputs : {1, 31, 32, 33, 300}) {
    CAPTURE(inputs);
    const std::size_t rows = 7;
    const auto a = random_values(rows * inputs, 1);
    const RoundedRows rounded(a.data(), DataType::kF32, rows, inputs);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t first = 0; first < inputs; first += 32) {
        const std::size_t end = std::min(first + 32, inputs);
        double largest = 0.0, sum = 0.0;
        for (std::size_t k = first; k < end; ++k) {
          const double value = a[row * inputs + k], scale = rounded.scale(row, k);
          CHECK(std::abs(rounded.number(row, k) * scale - value) <= 0.5001 * scale);
          largest = std::max(largest, std::abs(value));
          sum += rounded.number(row, k) * scale;
        }
        CHECK(rounded.scale(row, first) == doctest::Approx(largest / 127).epsilon(1e-6));
        const RoundedBlock& block = rounded.view.blocks[first / 32 * rows + row];
        CHECK(block.sum == doctest::Approx(sum).epsilon(1e-6));
        int numbers[2] = {};
        for (std::size_t k = first; k < first + 32; ++k) numbers[(k - first) / 16] += rounded.number(row, k);
        CHECK(block.first_half_offset == -8 * numbers[0]);
        CHECK(block.offset == -8 * (numbers[0] + numbers[1]));
        for (std::size_t k = end; k < first + 32; ++k) CHECK(rounded.number(row, k) == 0);
      }
    }
  }
}

TEST_CASE("q8 rows: bits are the same on every instruction set, from f32 and bf16, alone and among others") {
  const std::size_t rows = 9, inputs = 163;
  const auto bf16 = to_bf16(random_values(rows * inputs, 2));
  const auto a = to_f32(bf16);
  const RoundedRows reference(a.data(), DataType::kF32, rows, inputs, Isa::kPortable);
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    for (const bool is_bf16 : {false, true}) {
      const RoundedRows all(is_bf16 ? static_cast<const void*>(bf16.data()) : a.data(),
                            is_bf16 ? DataType::kBF16 : DataType::kF32, rows, inputs, isa);
      CHECK(std::memcmp(all.memory.data(), reference.memory.data(), 4 * all.memory.size()) == 0);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const RoundedRows alone(a.data() + row * inputs, DataType::kF32, 1, inputs, isa);
      for (std::size_t k = 0; k < inputs; ++k) {
        REQUIRE(alone.number(0, k) == reference.number(row, k));
        REQUIRE(alone.scale(0, k) == reference.scale(row, k));
      }
    }
  }
}

TEST_CASE("q8 rows: zeros and tiny values are zeros, what is not finite makes its row's products NaN") {
  const std::size_t inputs = 64, outputs = 5;
  const auto w = random_values(outputs * inputs, 3);
  PackedMatrix weight({{w.data(), DataType::kF32, outputs}}, inputs, BlockFormat::kQ8_0);
  weight.pack();
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    for (const float value : {0.0F, -1e-38F, kInfinity, -kInfinity, kNan}) {
      CAPTURE(value);
      std::vector<float> a(2 * inputs, value);  // the second row is finite
      std::fill(a.begin() + inputs, a.end(), 1.0F);
      const RoundedRows rounded(a.data(), DataType::kF32, 2, inputs, isa);
      float c[2 * outputs];
      const MatmulArguments arguments{.weight = &weight,
                                      .a = a.data(),
                                      .a_stride = inputs,
                                      .q8_rows = rounded.view,
                                      .c = c,
                                      .c_stride = outputs,
                                      .num_rows = 2,
                                      .isa = isa};
      matmul_run_task(arguments, 0);
      for (std::size_t n = 0; n < outputs; ++n) {
        CHECK((std::isfinite(value) ? c[n] == 0.0F : std::isnan(c[n])));
        CHECK(std::isfinite(c[outputs + n]));
      }
    }
  }
}

TEST_CASE("q8 rows: products of normal rows are off by 0.6 %") {
  const std::size_t rows = 16, inputs = 1024, outputs = 64;
  const auto a = random_values(rows * inputs, 4), w = random_values(outputs * inputs, 5);
  PackedMatrix weight({{w.data(), DataType::kF32, outputs}}, inputs, BlockFormat::kQ8_0);
  weight.pack();
  const RoundedRows rounded(a.data(), DataType::kF32, rows, inputs);
  std::vector<float> exact(rows * outputs), c(rows * outputs);
  MatmulArguments arguments{.weight = &weight,
                            .a = a.data(),
                            .a_stride = inputs,
                            .c = exact.data(),
                            .c_stride = outputs,
                            .num_rows = rows};
  matmul_run_task(arguments, 0);
  arguments.q8_rows = rounded.view;
  arguments.c = c.data();
  matmul_run_task(arguments, 0);
  double squares = 0.0, size = 0.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    squares += std::pow(double{c[i]} - exact[i], 2);
    size += std::pow(double{exact[i]}, 2);
  }
  const double error = std::sqrt(squares / size);
  MESSAGE("off by " << error);
  CHECK(error > 1e-4);  // else rows are not in 8 bits
  CHECK(error < 0.006);
}
