// SPDX-License-Identifier: Apache-2.0
// Which copies of KV pages a GPU may make side by side on its two streams, loads on
// one and stores on the other. Plain functions, as gpu/pages/copy_plan.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe::cuda {

// True if some device page or some host page is in both.
bool share_page(const std::vector<PageCopy>& left, const std::vector<PageCopy>& right);

bool stores_into(const std::vector<PageCopy>& copies, std::uint32_t host_page);

// Cuts a list so that in each part all stores may be made before all loads. Copies
// within the device are in parts of their own.
std::vector<std::vector<PageCopy>> stores_first(const std::vector<PageCopy>& copies);

}  // namespace troupe::cuda
