// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// A function of each element.
enum class Activation : std::uint8_t {
  kNone,      // x: only the type changes
  kGelu,      // 0.5 x (1 + erf(x / sqrt 2))
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  kRelu,      // max(x, 0)
  kTanh,
  kSilu,          // x / (1 + exp(-x))
  kClampedSwish,  // y / (1 + exp(-1.702 y)), y = min(x, 7)
};

}  // namespace troupe
