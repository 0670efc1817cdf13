// SPDX-License-Identifier: Apache-2.0
// Loading a page must never take longer than computing it again. Which of the
// pages of a prompt that are kept off the device are worth a load depends on
// where they are, how deep (attention makes deep ones dear), and how many come
// together, since a trip to a tier costs something however many pages it brings.
// Not in the paper, which loads whatever it has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/costs/recompute_cost.hpp"

namespace troupe {

enum class KvPlace : std::uint8_t { kDevice, kHost, kDisk, kNowhere };

// Nanoseconds, as measured. Zeros: not measured, a load is always worth it.
struct LoadCost {
  double fixed = 0;  // once for a sequence, if it loads any page of the tier
  double per_page = 0;
  bool operator==(const LoadCost&) const = default;
};

struct RestoreCosts {
  RecomputeCost recompute = {};  // nanoseconds, unless both loads are zeros
  LoadCost host = {};
  LoadCost disk = {};
};

// places[i]: where the i-th page of a sequence is. Which of those on host and
// disk to load; the others are to be computed, like those that are nowhere. No
// other choice takes less time, by restore_time; of equal ones this computes
// more. Pure; linear in the number of pages.
std::vector<bool> pages_to_load(std::span<const KvPlace> places, const RestoreCosts& costs);

// Nanoseconds until all pages are on the device, copies and computation one
// after the other. is_loaded: as pages_to_load gives it.
double restore_time(std::span<const KvPlace> places, const std::vector<bool>& is_loaded,
                    const RestoreCosts& costs);

}  // namespace troupe
