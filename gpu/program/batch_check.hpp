// SPDX-License-Identifier: Apache-2.0
// Checks that every device makes before it runs a batch: a batch that does not fit
// would read or write what is not its own.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/program/batch.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

// The cell, slices, pages, slots and token ids within the device's limits; the program, which
// may be null only if there are no slices, is large enough. Throws
// std::runtime_error that says whose fault it is.
void check_batch(const Program* program, const Batch& batch, const DeviceDescription& limits);

// The pages that copies name are there. Throws std::runtime_error.
void check_copies(const std::vector<PageCopy>& copies, std::size_t num_device_pages,
                  std::size_t num_host_pages);

}  // namespace troupe
