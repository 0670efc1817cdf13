// SPDX-License-Identifier: Apache-2.0
// h = f(x), element by element, and rounded to h's type.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"

namespace troupe {

struct ActivationArguments {
  Activation activation = Activation::kGelu;
  const float* x = nullptr;          // [num_rows, width]
  void* h = nullptr;                 // the same; may be x
  DataType h_type = DataType::kF32;  // kF32 or kBF16
  std::size_t num_rows = 0;
  std::size_t width = 0;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t activation_num_tasks(const ActivationArguments& arguments);
void activation_run_task(const ActivationArguments& arguments, std::size_t task);

}  // namespace troupe
