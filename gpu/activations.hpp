// SPDX-License-Identifier: Apache-2.0
// In which type rows are multiplied by weights in blocks.
#pragma once

#include <cstdint>

namespace troupe {

enum class Activations : std::uint8_t {
  kComputed,  // that of products: nothing is rounded for blocks' sake
  kQ8,        // rounded to 8 bits, a scale for each 32 inputs
};

}  // namespace troupe
