// SPDX-License-Identifier: Apache-2.0
// In which type rows are multiplied by weights in blocks.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpu/block_format.hpp"

namespace troupe {

enum class Activations : std::uint8_t {
  kComputed,    // that of products: nothing is rounded for blocks' sake
  kBelow8Bits,  // rounded for weights of fewer than 8 bits: their own rounding is larger
  kQ8,          // rounded to 8 bits, a scale for each 32 inputs
};

constexpr bool rounds_rows(Activations activations, BlockFormat format) {
  if (!is_quantized(format) || activations == Activations::kComputed) return false;
  return activations == Activations::kQ8 || format != BlockFormat::kQ8_0;
}

// As computations are described; empty: nothing is rounded.
constexpr std::string_view in_words(Activations activations) {
  switch (activations) {
    case Activations::kComputed: break;
    case Activations::kBelow8Bits: return "activations in q8 for weights below 8 bits";
    case Activations::kQ8: return "activations in q8";
  }
  return "";
}

}  // namespace troupe
