// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/restore_choice.hpp"

#include <cstddef>

namespace troupe {
namespace {

// Pages differ in their gain only, so those with one are taken, if together
// they gain more than the trip costs.
void choose_of_tier(KvPlace tier, const LoadCost& load, std::span<const KvPlace> places,
                    const RecomputeCost& recompute, std::vector<bool>& is_loaded) {
  double gain = 0;
  for (std::size_t depth = 0; depth < places.size(); ++depth) {
    if (places[depth] != tier) continue;
    const double of_page = recompute.of_page(static_cast<std::uint32_t>(depth)) - load.per_page;
    is_loaded[depth] = of_page > 0;
    if (is_loaded[depth]) gain += of_page;
  }
  if (gain > load.fixed) return;
  for (std::size_t depth = 0; depth < places.size(); ++depth)
    if (places[depth] == tier) is_loaded[depth] = false;
}

}  // namespace

std::vector<bool> pages_to_load(std::span<const KvPlace> places, const RestoreCosts& costs) {
  std::vector<bool> is_loaded(places.size(), false);
  choose_of_tier(KvPlace::kHost, costs.host, places, costs.recompute, is_loaded);
  choose_of_tier(KvPlace::kDisk, costs.disk, places, costs.recompute, is_loaded);
  return is_loaded;
}

double restore_time(std::span<const KvPlace> places, const std::vector<bool>& is_loaded,
                    const RestoreCosts& costs) {
  double time = 0;
  bool visits_host = false, visits_disk = false;
  for (std::size_t depth = 0; depth < places.size(); ++depth) {
    if (places[depth] == KvPlace::kDevice) continue;
    if (!is_loaded[depth]) {
      time += costs.recompute.of_page(static_cast<std::uint32_t>(depth));
    } else if (places[depth] == KvPlace::kHost) {
      time += costs.host.per_page + (visits_host ? 0 : costs.host.fixed);
      visits_host = true;
    } else {
      time += costs.disk.per_page + (visits_disk ? 0 : costs.disk.fixed);
      visits_disk = true;
    }
  }
  return time;
}

}  // namespace troupe
