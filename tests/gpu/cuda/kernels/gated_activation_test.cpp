// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/gated_activation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "gpu/cpu/kernels/gated_activation.hpp"
#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Case {
  std::uint32_t rows, width;
  std::size_t offset = 0;
};
constexpr Case kCases[] = {{0, 8}, {1, 1}, {3, 8}, {7, 100}, {2, 77}, {5, 64, 1}, {40, 256}};

double worst_difference(const std::vector<float>& values, const std::vector<float>& expected) {
  REQUIRE(values.size() == expected.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = std::max(1e-2, std::abs(double{expected[i]}));
    worst = std::max(worst, std::abs(double{values[i]} - expected[i]) / scale);
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda gated activation: equals the host's") {
  for (const DataType type : kElementTypes) {
    for (const Case& c : kCases) {
      CAPTURE(c.width);
      const auto inputs = as_stored(type, random_values(std::size_t{c.rows} * 2 * c.width, 1, 4.0F));
      std::vector<float> expected(std::size_t{c.rows} * c.width);
      const GatedActivationArguments host{.gate_up = inputs.data(),
                                          .gate_up_stride = 2 * c.width,
                                          .h = expected.data(),
                                          .h_stride = c.width,
                                          .num_rows = c.rows,
                                          .width = c.width};
      for (std::size_t task = 0; task < gated_activation_num_tasks(host); ++task) {
        gated_activation_run_task(host, task);
      }
      TypedBuffer gate_up(type, inputs, c.offset), h(type, expected, c.offset);
      cuda::launch_gated_activation({.gate_up = gate_up.data(),
                                     .gate_up_stride = 2 * c.width,
                                     .h = h.data(),
                                     .h_stride = c.width,
                                     .type = type,
                                     .num_rows = c.rows,
                                     .width = c.width},
                                    nullptr);
      CHECK(worst_difference(h.values(), expected) < rounding_of(type) + 1e-6);
    }
  }
}

TEST_CASE("cuda kernels: a type they don't compute in is refused by name") {
  CHECK_THROWS_WITH_AS(
      cuda::launch_gated_activation({.type = DataType::kI32, .num_rows = 1, .width = 1}, nullptr),
      "kernels compute in f32, f16 or bf16, not in i32", std::invalid_argument);
}
