// SPDX-License-Identifier: Apache-2.0
// How many files and connections this process may have open.
#pragma once

namespace troupe {

// Raises the limit to what the process may set itself (the hard limit). Where
// that fails it stays as it is; the server takes fewer connections then.
void raise_descriptor_limit();

}  // namespace troupe
