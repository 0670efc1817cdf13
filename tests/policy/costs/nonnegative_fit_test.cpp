// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/nonnegative_fit.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace troupe;

namespace {

double squared_error(const std::vector<double>& a, const std::vector<double>& b,
                     const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t row = 0; row < b.size(); ++row) {
    double error = -b[row];
    for (std::size_t i = 0; i < x.size(); ++i) error += a[row * x.size() + i] * x[i];
    sum += error * error;
  }
  return sum;
}

}  // namespace

TEST_CASE("nonnegative fit: an exact solution is found") {
  const std::vector<double> a = {1, 0, 1, 1, 1, 2};
  const auto x = fit_nonnegative(a, std::vector<double>{2, 5, 8}, 2);
  CHECK(x[0] == doctest::Approx(2));
  CHECK(x[1] == doctest::Approx(3));
}

TEST_CASE("nonnegative fit: a coefficient that would be negative is zero") {
  const std::vector<double> a = {1, 0, 1, 1, 1, 2};
  const auto x = fit_nonnegative(a, std::vector<double>{3, 2, 1}, 2);
  CHECK(x[0] == doctest::Approx(2));
  CHECK(x[1] == 0);
}

TEST_CASE("nonnegative fit: columns that are zero or repeat do no harm") {
  const std::vector<double> a = {1, 0, 1, 2, 0, 2, 3, 0, 3};
  const auto x = fit_nonnegative(a, std::vector<double>{2, 4, 6}, 3);
  CHECK(x[0] + x[2] == doctest::Approx(2));
  CHECK(x[1] == 0);
}

TEST_CASE("nonnegative fit: no step to a neighbour is an improvement") {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 200; ++round) {
    const std::size_t num_columns = 1 + round % 7;
    std::vector<double> a(20 * num_columns), b(20);
    for (double& value : a) value = normal(random);
    for (double& value : b) value = normal(random);
    const auto x = fit_nonnegative(a, b, num_columns);
    const double best = squared_error(a, b, x);
    for (std::size_t i = 0; i < num_columns; ++i) {
      REQUIRE(x[i] >= 0);
      for (const double step : {-1e-3, 1e-3}) {
        auto other = x;
        other[i] += step;
        if (other[i] >= 0) REQUIRE(squared_error(a, b, other) >= best - 1e-9);
      }
    }
  }
}
