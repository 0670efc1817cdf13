// SPDX-License-Identifier: Apache-2.0
// Tells a stored response from one that was changed or damaged on the disk.
#pragma once

#include <cstdint>

#include "store/stored_response.hpp"

namespace troupe {

// XXH3 over all of it, each part with its length.
std::uint64_t checksum_of(const StoredResponse& response);

}  // namespace troupe
