// SPDX-License-Identifier: Apache-2.0
// Add (gpu/operators/add.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct AddArguments {
  float* x = nullptr;
  const float* y = nullptr;
  std::size_t num_elements = 0;
  Isa isa = best_isa();
};

// A task is some thousand elements.
std::size_t add_num_tasks(const AddArguments& arguments);
void add_run_task(const AddArguments& arguments, std::size_t task);

}  // namespace troupe
