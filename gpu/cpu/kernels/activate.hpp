// SPDX-License-Identifier: Apache-2.0
// Activate (gpu/operators/activate.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"

namespace troupe {

struct ActivateArguments {
  Activation activation = Activation::kGelu;
  const float* x = nullptr;          // [num_rows, width]
  void* h = nullptr;                 // the same; may be x
  DataType h_type = DataType::kF32;  // kF32 or kBF16
  std::size_t num_rows = 0;
  std::size_t width = 0;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t activate_num_tasks(const ActivateArguments& arguments);
void activate_run_task(const ActivateArguments& arguments, std::size_t task);

}  // namespace troupe
