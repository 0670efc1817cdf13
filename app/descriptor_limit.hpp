// SPDX-License-Identifier: Apache-2.0
// How many files and connections this process may have open.
#pragma once

#include <cstdint>

namespace troupe {

// Raises the limit to what the process may set itself (the hard limit). Where
// that fails it stays as it is; the server takes fewer connections then.
void raise_descriptor_limit();

// The hard limit; UINT64_MAX where there is none, 0 where it is not known.
std::uint64_t descriptor_limit();

}  // namespace troupe
