// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/row_copy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "gpu/cuda/kernels/embed.hpp"
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

TEST_CASE("cuda embed: rows of the table by id or by slot, zeros for ids that are none") {
  const std::uint32_t vocabulary = 11;
  for (const DataType type : kElementTypes) {
    for (const Case& c : kCases) {
      CAPTURE(c.width);
      const std::size_t stride = c.width + c.extra_stride;
      const auto table = as_stored(type, random_values(vocabulary * stride, 1));
      TypedBuffer device_table(type, table, c.offset),
          x(DataType::kF32, std::vector<float>(7 * stride, 7.0F), c.offset);
      DeviceArray<std::int32_t> ids({3, 10, -1, 11, 0, 5, 5}), of_slots({9, 4});
      DeviceArray<std::uint32_t> slots(
          {cuda::kNoSlot, cuda::kNoSlot, cuda::kNoSlot, cuda::kNoSlot, cuda::kNoSlot, 1, 0});
      cuda::launch_embed({.table = device_table.data(),
                          .table_stride = stride,
                          .type = type,
                          .vocabulary = vocabulary,
                          .token_ids = ids.data(),
                          .slots = slots.data(),
                          .tokens_of_slots = of_slots.data(),
                          .x = static_cast<float*>(x.data()),
                          .x_stride = stride,
                          .num_rows = 7,
                          .width = c.width},
                         nullptr);
      const auto result = x.values();
      const std::vector<float> zeros(c.width, 0.0F);
      const int expected[] = {3, 10, -1, -1, 0, 4, 9};
      for (std::size_t row = 0; row < 7; ++row) {
        CHECK(row_of(result, row, c) ==
              (expected[row] < 0 ? zeros : row_of(table, static_cast<std::size_t>(expected[row]), c)));
      }
    }
  }
}

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
