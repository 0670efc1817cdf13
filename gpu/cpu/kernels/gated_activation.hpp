// SPDX-License-Identifier: Apache-2.0
// GatedActivation (gpu/operators/gated_activation.hpp) on CPU cores.
#pragma once

#include <cstddef>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"

namespace troupe {

struct GatedActivationArguments {
  Activation activation = Activation::kSilu;  // kGeluTanh or kClampedSwish
  const float* gate_up = nullptr;             // [num_rows, 2 * width]: gate first
  std::size_t gate_up_stride = 0;
  void* h = nullptr;                 // [num_rows, width]
  DataType h_type = DataType::kF32;  // kF32 or kBF16
  std::size_t h_stride = 0;
  std::size_t num_rows = 0;
  std::size_t width = 0;
  Isa isa = best_isa();
};

// A task is a few rows.
std::size_t gated_activation_num_tasks(const GatedActivationArguments& arguments);
void gated_activation_run_task(const GatedActivationArguments& arguments, std::size_t task);

}  // namespace troupe
