// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/pooling.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

struct Pooling {
  PoolingMode mode = PoolingMode::kMean;
  bool normalizes = false;
};

std::vector<float> pooled(const std::vector<float>& x, const std::vector<BatchRows>& slices,
                          std::size_t width, const Pooling& pooling, Isa isa) {
  std::vector<float> vectors(slices.size() * width, NAN);
  const PoolingArguments arguments{.x = x.data(),
                                   .slices = slices,
                                   .vectors = vectors.data(),
                                   .width = width,
                                   .mode = pooling.mode,
                                   .normalizes = pooling.normalizes,
                                   .isa = isa};
  for (std::size_t task = pooling_num_tasks(arguments); task-- > 0;) pooling_run_task(arguments, task);
  return vectors;
}

double expected_column(const std::vector<float>& x, const BatchRows& slice, std::size_t width,
                       std::size_t column, PoolingMode mode) {
  std::vector<double> values;
  for (std::size_t row = 0; row < slice.num_tokens; ++row)
    values.push_back(x[(slice.first_token + row) * width + column]);
  if (mode == PoolingMode::kCls) return values.front();
  if (mode == PoolingMode::kLast) return values.back();
  if (mode == PoolingMode::kMax) return *std::max_element(values.begin(), values.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const std::vector<BatchRows> kRagged = {{0, 1}, {1, 40}, {41, 2}, {43, 300}, {343, 7}};
constexpr std::size_t kTokens = 350;

}  // namespace

TEST_CASE("pooling: mean, largest, first and last row equal f64 within 2e-6, of length 1 where wanted") {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t width : {1, 8, 33, 384}) {
      const auto x = random_values(kTokens * width, 1);
      for (const Pooling pooling : {Pooling{PoolingMode::kMean, false}, Pooling{PoolingMode::kMean, true},
                                    Pooling{PoolingMode::kCls, false}, Pooling{PoolingMode::kCls, true},
                                    Pooling{PoolingMode::kMax, false}, Pooling{PoolingMode::kMax, true},
                                    Pooling{PoolingMode::kLast, false}, Pooling{PoolingMode::kLast, true}}) {
        CAPTURE(name_of(isa));
        CAPTURE(width);
        const auto vectors = pooled(x, kRagged, width, pooling, isa);
        for (std::size_t s = 0; s < kRagged.size(); ++s) {
          std::vector<double> expected(width);
          double squares = 0.0;
          for (std::size_t i = 0; i < width; ++i) {
            expected[i] = expected_column(x, kRagged[s], width, i, pooling.mode);
            squares += expected[i] * expected[i];
          }
          for (std::size_t i = 0; i < width; ++i) {
            const double value = pooling.normalizes ? expected[i] / std::sqrt(squares) : expected[i];
            REQUIRE(std::abs(vectors[s * width + i] - value) <= 2e-6);
          }
        }
      }
    }
  }
}

TEST_CASE("pooling: zeros stay zeros, and no slices are no tasks") {
  for (const Isa isa : supported_isas()) {
    const auto vectors = pooled(std::vector<float>(3 * 20), {{0, 3}}, 20, {PoolingMode::kMean, true}, isa);
    CHECK(vectors == std::vector<float>(20));
    CHECK(pooled({}, {}, 20, {}, isa).empty());
  }
}

TEST_CASE("pooling: a slice's bits do not depend on what is beside it") {
  const std::size_t width = 100;
  const auto x = random_values(kTokens * width, 1);
  for (const Isa isa : supported_isas()) {
    const auto all = pooled(x, kRagged, width, {PoolingMode::kMean, true}, isa);
    for (std::size_t s = 0; s < kRagged.size(); ++s) {
      const auto alone = pooled(x, {kRagged[s]}, width, {PoolingMode::kMean, true}, isa);
      REQUIRE(same_bits(alone.data(), &all[s * width], width));
    }
  }
}
