// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/nonnegative_fit.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace troupe {
namespace {

constexpr double kTolerance = 1e-11;

// The normal equations, columns scaled to length one: A'A and A'b.
struct NormalEquations {
  std::size_t size = 0;
  std::vector<double> matrix;
  std::vector<double> right;
  std::vector<double> scale;
};

NormalEquations normal_equations(std::span<const double> a, std::span<const double> b,
                                 std::size_t num_columns) {
  NormalEquations equations{.size = num_columns,
                            .matrix = std::vector<double>(num_columns * num_columns, 0.0),
                            .right = std::vector<double>(num_columns, 0.0),
                            .scale = std::vector<double>(num_columns, 0.0)};
  for (std::size_t row = 0; row < b.size(); ++row)
    for (std::size_t i = 0; i < num_columns; ++i)
      equations.scale[i] += a[row * num_columns + i] * a[row * num_columns + i];
  for (double& scale : equations.scale) scale = scale > 0 ? 1 / std::sqrt(scale) : 0;
  for (std::size_t row = 0; row < b.size(); ++row) {
    const auto values = a.subspan(row * num_columns, num_columns);
    for (std::size_t i = 0; i < num_columns; ++i) {
      const double scaled = values[i] * equations.scale[i];
      equations.right[i] += scaled * b[row];
      for (std::size_t j = 0; j < num_columns; ++j)
        equations.matrix[i * num_columns + j] += scaled * values[j] * equations.scale[j];
    }
  }
  return equations;
}

// Gaussian elimination with pivoting over the chosen unknowns; those that the
// others determine already get 0, as do those that are not chosen.
std::vector<double> solve(const NormalEquations& equations, const std::vector<bool>& is_chosen) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < equations.size; ++i)
    if (is_chosen[i]) chosen.push_back(i);
  const std::size_t n = chosen.size();
  std::vector<double> m(n * (n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      m[i * (n + 1) + j] = equations.matrix[chosen[i] * equations.size + chosen[j]];
    m[i * (n + 1) + n] = equations.right[chosen[i]];
  }
  // Gauss-Jordan on the diagonal: the matrix is symmetric and positive.
  std::vector<bool> is_done(n, false);
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t pivot = n;
    for (std::size_t i = 0; i < n; ++i)
      if (!is_done[i] && (pivot == n || m[i * (n + 1) + i] > m[pivot * (n + 1) + pivot])) pivot = i;
    const double value = m[pivot * (n + 1) + pivot];
    if (value < kTolerance) break;
    is_done[pivot] = true;
    for (std::size_t row = 0; row < n; ++row) {
      if (row == pivot) continue;
      const double factor = m[row * (n + 1) + pivot] / value;
      for (std::size_t j = 0; j <= n; ++j) m[row * (n + 1) + j] -= factor * m[pivot * (n + 1) + j];
    }
  }
  std::vector<double> x(equations.size, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    if (is_done[i]) x[chosen[i]] = m[i * (n + 1) + n] / m[i * (n + 1) + i];
  return x;
}

// The unknown outside the set that would lessen the error most; size: none.
std::size_t steepest(const NormalEquations& equations, const std::vector<double>& x,
                     const std::vector<bool>& is_chosen) {
  std::size_t best = equations.size;
  double best_gradient = kTolerance;
  for (std::size_t i = 0; i < equations.size; ++i) {
    if (is_chosen[i] || equations.scale[i] == 0) continue;
    double gradient = equations.right[i];
    for (std::size_t j = 0; j < equations.size; ++j)
      gradient -= equations.matrix[i * equations.size + j] * x[j];
    if (gradient > best_gradient) {
      best = i;
      best_gradient = gradient;
    }
  }
  return best;
}

}  // namespace

std::vector<double> fit_nonnegative(std::span<const double> a, std::span<const double> b,
                                    std::size_t num_columns) {
  assert(a.size() == b.size() * num_columns);
  const NormalEquations equations = normal_equations(a, b, num_columns);
  std::vector<double> x(num_columns, 0.0);
  std::vector<bool> is_chosen(num_columns, false);
  // Each round adds an unknown; rounding could make it go in circles.
  for (std::size_t round = 0; round < 3 * num_columns; ++round) {
    const std::size_t entering = steepest(equations, x, is_chosen);
    if (entering == num_columns) break;
    is_chosen[entering] = true;
    for (;;) {
      const std::vector<double> aim = solve(equations, is_chosen);
      // As far towards the aim as nothing turns negative.
      double share = 1;
      for (std::size_t i = 0; i < num_columns; ++i)
        if (is_chosen[i] && aim[i] < 0) share = std::min(share, x[i] / (x[i] - aim[i]));
      for (std::size_t i = 0; i < num_columns; ++i)
        if (is_chosen[i]) x[i] += share * (aim[i] - x[i]);
      if (share == 1) break;
      for (std::size_t i = 0; i < num_columns; ++i) {
        if (!is_chosen[i] || aim[i] >= 0 || x[i] > kTolerance) continue;
        is_chosen[i] = false;
        x[i] = 0;
      }
    }
  }
  for (std::size_t i = 0; i < num_columns; ++i) x[i] = std::max(0.0, x[i] * equations.scale[i]);
  return x;
}

}  // namespace troupe
