// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/add.hpp"

#include <doctest/doctest.h>

#include "gpu/cpu/kernels/add.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE("add: x += y, over more elements than a task has and over none") {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t count : {0, 1, 37, 20000}) {
      const auto before = random_values(count, 1), y = random_values(count, 2);
      auto x = before;
      const AddArguments arguments{.x = x.data(), .y = y.data(), .num_elements = count, .isa = isa};
      for (std::size_t task = add_num_tasks(arguments); task-- > 0;) add_run_task(arguments, task);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(x[i] == before[i] + y[i]);
    }
  }
}
