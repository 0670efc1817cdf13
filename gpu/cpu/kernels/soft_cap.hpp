// SPDX-License-Identifier: Apache-2.0
// SoftCap (gpu/operators/soft_cap.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {

struct SoftCapArguments {
  float* x = nullptr;
  std::size_t num_elements = 0;
  float cap = 1.0F;  // > 0
  Isa isa = best_isa();
};

// A task is some thousand elements.
std::size_t soft_cap_num_tasks(const SoftCapArguments& arguments);
void soft_cap_run_task(const SoftCapArguments& arguments, std::size_t task);

}  // namespace troupe
