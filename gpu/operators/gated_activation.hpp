// SPDX-License-Identifier: Apache-2.0
// h = activation(gate) * up, or with kClampedSwish activation(gate) * (min(max(up, -7), 7) + 1),
// in h's type.
//
//   inputs {gate_up [rows, 2 * width]: gate first}, outputs {h [rows, width]}
#pragma once

#include "gpu/operators/activation.hpp"

namespace troupe {

struct GatedActivation {
  Activation activation = Activation::kSilu;  // kGeluTanh or kClampedSwish
};

}  // namespace troupe
