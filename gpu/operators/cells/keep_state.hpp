// SPDX-License-Identifier: Apache-2.0
// Keeps what later nodes read of this one: floats [offset, offset + width) of its row.
//
//   inputs {x [tokens, width]}, f32; outputs none
#pragma once

#include <cstdint>

namespace troupe {

struct KeepState {
  std::uint32_t offset = 0;
};

}  // namespace troupe
