// SPDX-License-Identifier: Apache-2.0
// A body in the gzip format, for requests that say Content-Encoding: gzip.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

// Any thread. Throws std::runtime_error if it can't be done for want of memory.
std::string gzipped(std::string_view bytes);

}  // namespace troupe
