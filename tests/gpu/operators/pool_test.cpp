// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/cpu/kernels/pool.hpp"
#include "gpu/cuda/kernels/rows/pool.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace {

struct Input {
  std::size_t width;
  std::vector<float> x;
  std::vector<BatchRows> slices;
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Pool& pool, const Input& input) {
  std::vector<float> vectors(input.slices.size() * input.width, NAN);
  const PoolArguments arguments{.x = input.x.data(),
                                .slices = input.slices,
                                .vectors = vectors.data(),
                                .width = input.width,
                                .mode = pool.mode,
                                .normalizes = pool.normalizes,
                                .isa = backend.isa};
  run_tasks(arguments, pool_num_tasks(arguments), pool_run_task);
  return vectors;
}

std::vector<float> on_gpu(const Pool& pool, const Input& input) {
  DeviceArray<float> x(input.x), vectors(std::vector<float>(input.slices.size() * input.width, NAN));
  DeviceArray<BatchRows> slices(input.slices);
  cuda::launch_pool({.x = x.data(),
                     .slices = slices.data(),
                     .num_slices = static_cast<std::uint32_t>(input.slices.size()),
                     .vectors = vectors.data(),
                     .width = static_cast<std::uint32_t>(input.width),
                     .mode = pool.mode,
                     .normalizes = pool.normalizes},
                    nullptr);
  return vectors.values();
}

// Everything is f32.
template <typename Body>
void on_every_backend_once(Body body) {
  on_every_backend([&](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;
    body([&](const Pool& pool, const Input& input) {
      return backend.is_gpu ? on_gpu(pool, input) : on_cpu(backend, pool, input);
    });
  });
}

double expected_column(const Input& input, const BatchRows& slice, std::size_t column, PoolingMode mode) {
  std::vector<double> values;
  for (std::size_t row = 0; row < slice.num_tokens; ++row)
    values.push_back(input.x[(slice.first_token + row) * input.width + column]);
  if (mode == PoolingMode::kCls) return values.front();
  if (mode == PoolingMode::kLast) return values.back();
  if (mode == PoolingMode::kMax) return *std::max_element(values.begin(), values.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const std::vector<BatchRows> kRagged = {{0, 1}, {1, 40}, {41, 2}, {43, 100}, {143, 7}};
constexpr std::size_t kTokens = 150;

Input ragged_input(std::size_t width) { return {width, random_values(kTokens * width, 1), kRagged}; }

}  // namespace

TEST_CASE("pool: mean, largest, first and last row equal f64 within 2e-6, of length 1 where wanted") {
  on_every_backend_once([](auto run) {
    for (const std::size_t width : {1, 8, 33, 384}) {
      const Input input = ragged_input(width);
      for (const PoolingMode mode :
           {PoolingMode::kMean, PoolingMode::kCls, PoolingMode::kMax, PoolingMode::kLast}) {
        for (const bool normalizes : {false, true}) {
          CAPTURE(width);
          const auto vectors = run({.mode = mode, .normalizes = normalizes}, input);
          for (std::size_t s = 0; s < kRagged.size(); ++s) {
            std::vector<double> expected(width);
            double squares = 0.0;
            for (std::size_t i = 0; i < width; ++i) {
              expected[i] = expected_column(input, kRagged[s], i, mode);
              squares += expected[i] * expected[i];
            }
            for (std::size_t i = 0; i < width; ++i) {
              const double value = normalizes ? expected[i] / std::sqrt(squares) : expected[i];
              REQUIRE(std::abs(vectors[s * width + i] - value) <= 2e-6);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("pool: zeros stay zeros, and no slices are no work") {
  on_every_backend_once([](auto run) {
    CHECK(run({.normalizes = true}, {20, std::vector<float>(3 * 20), {{0, 3}}}) == std::vector<float>(20));
    CHECK(run({}, {20, {}, {}}).empty());
  });
}

TEST_CASE("pool: a slice's bits do not depend on what is beside it") {
  on_every_backend_once([](auto run) {
    Input input = ragged_input(100);
    const auto all = run({.normalizes = true}, input);
    for (std::size_t s = 0; s < kRagged.size(); ++s) {
      input.slices = {kRagged[s]};
      REQUIRE(run({.normalizes = true}, input) == rows_of(all, 100, s));
    }
  });
}

TEST_CASE("pool: rows of padding do not count") {
  on_every_backend_once([](auto run) {
    Input input = ragged_input(100);
    for (const PoolingMode mode :
         {PoolingMode::kMean, PoolingMode::kCls, PoolingMode::kMax, PoolingMode::kLast}) {
      input.slices = {{1, 40, 13}, {43, 100, 99}};
      const auto padded = run({.mode = mode, .normalizes = true}, input);
      input.slices = {{1, 27}, {43, 1}};
      CHECK(run({.mode = mode, .normalizes = true}, input) == padded);
    }
  });
}
