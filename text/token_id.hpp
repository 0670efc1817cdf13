// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// An entry of a model's vocabulary. Negative ids never occur in one.
using TokenId = std::int32_t;

}  // namespace troupe
