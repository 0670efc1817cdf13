// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/gather_rows.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Case {
  std::uint32_t width;
  std::size_t extra_stride = 0;
  std::size_t offset = 0;
};
constexpr Case kCases[] = {{1}, {8}, {64, 8}, {77, 2}, {32, 0, 1}};

std::vector<float> row_of(const std::vector<float>& matrix, std::size_t row, const Case& c) {
  const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(row * (c.width + c.extra_stride));
  return {begin, begin + c.width};
}

}  // namespace

TEST_CASE("cuda gather rows: the sampled rows, with or without the residual") {
  for (const DataType type : kElementTypes) {
    for (const Case& c : kCases) {
      for (const bool has_residual : {false, true}) {
        const std::size_t stride = c.width + c.extra_stride;
        const auto x = random_values(6 * stride, 1);
        const auto residual = as_stored(type, random_values(6 * stride, 2));
        TypedBuffer device_x(DataType::kF32, x, c.offset), device_residual(type, residual, c.offset),
            gathered(DataType::kF32, std::vector<float>(3 * stride, 7.0F), c.offset);
        DeviceArray<std::uint32_t> rows({5, 0, 3});
        cuda::launch_gather_rows({.x = static_cast<const float*>(device_x.data()),
                                  .x_stride = stride,
                                  .residual = has_residual ? device_residual.data() : nullptr,
                                  .residual_stride = stride,
                                  .type = type,
                                  .rows = rows.data(),
                                  .gathered = static_cast<float*>(gathered.data()),
                                  .gathered_stride = stride,
                                  .num_rows = 3,
                                  .width = c.width},
                                 nullptr);
        const auto result = gathered.values();
        const std::size_t sources[] = {5, 0, 3};
        for (std::size_t row = 0; row < 3; ++row) {
          auto expected = row_of(x, sources[row], c);
          const auto added = row_of(residual, sources[row], c);
          for (std::size_t i = 0; has_residual && i < c.width; ++i) expected[i] += added[i];
          CHECK(row_of(result, row, c) == expected);
        }
      }
    }
  }
}
