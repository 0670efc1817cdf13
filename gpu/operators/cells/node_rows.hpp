// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// Rows of the pool that one node of a batch reads and writes.
struct NodeRows {
  std::uint32_t row = 0;          // it writes
  std::uint32_t first_input = 0;  // in the batch's input rows
  std::uint32_t num_inputs = 0;
};

}  // namespace troupe
