// SPDX-License-Identifier: Apache-2.0
// Which moves of KV pages a GPU may make side by side on its two streams, loads on
// one and stores on the other. Plain functions, as gpu/host/copy_plan.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/batch.hpp"

namespace troupe::cuda {

// Whether some device page or some host page is in both.
bool share_page(const std::vector<PageMove>& left, const std::vector<PageMove>& right);

bool stores_into(const std::vector<PageMove>& moves, std::uint32_t host_page);

// Cuts a list so that in each part all stores may be made before all loads.
std::vector<std::vector<PageMove>> stores_first(const std::vector<PageMove>& moves);

}  // namespace troupe::cuda
