// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/soft_cap.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cpu/kernels/soft_cap.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE(
    "soft cap: cap * tanh(x / cap) within 3e-7 of the cap, at any place; what is no number stays none") {
  for (const Isa isa : supported_isas()) {
    auto x = random_values(20000, 3, 40.0F);
    x[7] = std::nanf("");
    const auto capped = [&](std::vector<float> values) {
      const SoftCapArguments arguments{
          .x = values.data(), .num_elements = values.size(), .cap = 30.0F, .isa = isa};
      for (std::size_t task = soft_cap_num_tasks(arguments); task-- > 0;) soft_cap_run_task(arguments, task);
      return values;
    };
    const auto all = capped(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i == 7) continue;
      REQUIRE(std::abs(all[i] - 30.0 * std::tanh(x[i] / 30.0)) <= 30.0 * 3e-7);
      if (i % 50 == 0) REQUIRE(same_bits(capped({x[i]}).data(), &all[i], 1));
    }
    CHECK(std::isnan(all[7]));
    CHECK(capped({}).empty());
  }
}
