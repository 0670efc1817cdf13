// SPDX-License-Identifier: Apache-2.0
// x += y, element by element.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct AdditionArguments {
  float* x = nullptr;
  const float* y = nullptr;
  std::size_t num_elements = 0;
  Isa isa = best_isa();
};

// A task is some thousand elements.
std::size_t addition_num_tasks(const AdditionArguments& arguments);
void addition_run_task(const AdditionArguments& arguments, std::size_t task);

}  // namespace troupe
