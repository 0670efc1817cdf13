// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/embed.hpp"

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
