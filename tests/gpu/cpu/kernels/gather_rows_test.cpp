// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/gather_rows.hpp"

#include <doctest/doctest.h>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE("gather: picks rows and adds the residual") {
  const std::size_t width = 37;
  const auto x = random_values(40 * width, 1);
  const auto residual = random_values(40 * width, 2);
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < 20; ++i) rows.push_back(39 - 2 * i);
  for (const Isa isa : supported_isas()) {
    for (const bool has_residual : {false, true}) {
      std::vector<float> gathered(rows.size() * width);
      const GatherRowsArguments arguments{.x = x.data(),
                                          .x_stride = width,
                                          .residual = has_residual ? residual.data() : nullptr,
                                          .residual_stride = width,
                                          .rows = rows,
                                          .gathered = gathered.data(),
                                          .gathered_stride = width,
                                          .width = width,
                                          .isa = isa};
      for (std::size_t task = 0; task < gather_rows_num_tasks(arguments); ++task)
        gather_rows_run_task(arguments, task);
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const std::size_t at = rows[i / width] * width + i % width;
        REQUIRE(gathered[i] == (has_residual ? x[at] + residual[at] : x[at]));
      }
    }
  }
  CHECK(gather_rows_num_tasks({}) == 0);
}
