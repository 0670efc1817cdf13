// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/kernel_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE("exp: below 2 ulp over its whole range") {
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    std::vector<float> x;
    for (double v = -87.3; v < 88.7; v += 0.00371) x.push_back(static_cast<float>(v));
    std::vector<float> y(x.size());
    kernel_table(isa).exponentiate(x.data(), 0.0F, 1.0F, y.data(), x.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double{x[i]});
      const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
      worst = std::max(worst, std::abs(y[i] - expected) / ulp);
    }
    CHECK(worst < 2.0);
    const std::vector<float> limits{-88.0F, -std::numeric_limits<float>::infinity(), 89.0F, std::nanf("")};
    y.resize(4);
    kernel_table(isa).exponentiate(limits.data(), 0.0F, 1.0F, y.data(), 4);
    CHECK(y[0] == 0.0F);
    CHECK(y[1] == 0.0F);
    CHECK(std::isinf(y[2]));
    CHECK(std::isnan(y[3]));
  }
}
