// SPDX-License-Identifier: Apache-2.0
// All that is learnt of the served model's states at one kind of place: what they look like, how many tokens
// follow, and how far guesses made of that are off.
#pragma once

#include "policy/lengths/calibration.hpp"
#include "policy/lengths/hazard_head.hpp"
#include "policy/lengths/state_features.hpp"

namespace troupe {

struct StateHead {
  explicit StateHead(double quantile) : calibration(quantile) {}

  StateFeatures features;
  HazardHead hazards{StateFeatures::kSize};
  Calibration calibration;
};

}  // namespace troupe
