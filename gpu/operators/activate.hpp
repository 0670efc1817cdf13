// SPDX-License-Identifier: Apache-2.0
// h = activation(x), element by element, in h's type.
//
//   inputs {x [rows, width]}, outputs {h [rows, width]}, which may be x
#pragma once

#include "gpu/operators/activation.hpp"

namespace troupe {

struct Activate {
  Activation activation = Activation::kGelu;
};

}  // namespace troupe
