// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/reserved_quantile.hpp"

#include <algorithm>

namespace troupe {

void ReservedQuantile::observe(const ReservationCosts& costs, std::uint32_t too_few) {
  if (is_fixed_ || costs.unused_token <= 0) return;
  num_known_ += 1;
  // Plain means at first: they are right from the first answer on, and no answer among few rules for long.
  const double share = std::max(kFollow, 1.0 / static_cast<double>(num_known_));
  const auto follow = [share](double& mean, double value) { mean += share * (value - mean); };
  follow(unused_token_, costs.unused_token);
  follow(brought_back_, costs.brought_back);
  follow(too_few_, too_few);
  if (too_few_ <= 0) return;
  const double too_little = brought_back_ / too_few_;
  const double wanted = std::clamp(too_little / (too_little + unused_token_), kLeast, kMost);
  value_ += std::clamp(wanted - value_, -kStep, kStep);
}

}  // namespace troupe
