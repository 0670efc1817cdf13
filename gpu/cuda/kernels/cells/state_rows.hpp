// SPDX-License-Identifier: Apache-2.0
// The pool of rows of state on a GPU, as the operators of gpu/operators/cells/ see it during a
// batch. States of a batch's nodes lie anywhere in it: kernels find rows by number where they
// read and write them, so nothing is moved before a cell and back behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/operators/cells/node_rows.hpp"

namespace troupe::cuda {

// Device pointers.
struct StateRows {
  float* rows = nullptr;  // [num_rows, width]
  std::size_t width = 0;
  const NodeRows* nodes = nullptr;        // [num_nodes], one a token of the batch
  const std::uint32_t* inputs = nullptr;  // rows that nodes read
  std::uint32_t num_nodes = 0;
};

}  // namespace troupe::cuda
