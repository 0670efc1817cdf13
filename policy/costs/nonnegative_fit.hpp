// SPDX-License-Identifier: Apache-2.0
// Least squares with coefficients that are not negative, for a handful of
// unknowns.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

// The x >= 0 that makes |A x - b| least. A has b.size() rows, row after row.
// By Lawson and Hanson's active set method. Columns that are all zero get 0.
std::vector<double> fit_nonnegative(std::span<const double> a, std::span<const double> b,
                                    std::size_t num_columns);

}  // namespace troupe
