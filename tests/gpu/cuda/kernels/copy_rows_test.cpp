// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/copy_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

TEST_CASE("cuda copy rows: gather, scatter and moves within one matrix") {
  for (const std::uint32_t row_bytes : {16U, 64U, 5120U, 13U, 1U}) {
    CAPTURE(row_bytes);
    std::vector<std::uint8_t> values(8 * row_bytes);
    std::iota(values.begin(), values.end(), std::uint8_t{0});
    DeviceArray<std::uint8_t> matrix(values);
    DeviceArray<std::uint32_t> from({7, 6}), to({1, 2});
    cuda::launch_copy_rows({.from = matrix.data(),
                            .from_stride_bytes = row_bytes,
                            .from_rows = from.data(),
                            .to = matrix.data(),
                            .to_stride_bytes = row_bytes,
                            .to_rows = to.data(),
                            .num_rows = 2,
                            .row_bytes = row_bytes},
                           nullptr);
    auto expected = values;
    std::copy_n(values.begin() + 7 * row_bytes, row_bytes, expected.begin() + row_bytes);
    std::copy_n(values.begin() + 6 * row_bytes, row_bytes, expected.begin() + 2 * row_bytes);
    CHECK(matrix.values() == expected);
    DeviceArray<std::uint8_t> gathered(std::vector<std::uint8_t>(2 * row_bytes));
    cuda::launch_copy_rows({.from = matrix.data(),
                            .from_stride_bytes = row_bytes,
                            .from_rows = from.data(),
                            .to = gathered.data(),
                            .to_stride_bytes = row_bytes,
                            .num_rows = 2,
                            .row_bytes = row_bytes},
                           nullptr);
    CHECK(gathered.values() ==
          std::vector<std::uint8_t>(expected.begin() + row_bytes, expected.begin() + 3 * row_bytes));
  }
  cuda::launch_copy_rows({.num_rows = 0, .row_bytes = 4}, nullptr);
}
