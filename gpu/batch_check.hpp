// SPDX-License-Identifier: Apache-2.0
// What every device looks at before it runs a batch: a batch that does not fit
// would read or write what is not its own.
#pragma once

#include "gpu/batch.hpp"
#include "gpu/device.hpp"
#include "gpu/program.hpp"

namespace troupe {

// Slices, pages, slots and token ids within the device's limits; the program, which
// may be null only if there are no slices, is large enough. Throws
// std::runtime_error that says whose fault it is.
void check_batch(const Program* program, const Batch& batch, const DeviceDescription& limits);

}  // namespace troupe
