// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/recompute_cost.hpp"

#include <bit>

namespace troupe {

double RecomputeCost::of_page(std::uint32_t depth) const {
  if (attention.empty() || depth == 0) return constant;
  const auto below = static_cast<std::size_t>(std::bit_width(depth) - 1);  // 2^below <= depth
  if (below + 1 >= attention.size()) {
    const auto last = static_cast<double>(1ULL << (attention.size() - 1));
    return constant + attention.back() * (depth / last);
  }
  const auto low = static_cast<double>(1ULL << below);
  const double share = (depth - low) / low;
  return constant + attention[below] + share * (attention[below + 1] - attention[below]);
}

}  // namespace troupe
