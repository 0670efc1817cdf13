// SPDX-License-Identifier: Apache-2.0
// The GEMM autotuner's results: which kernel computes which product, as measured, kept in the state directory
// for the next start, or shipped with the programs. A file has a list for each kind of GPU
// and version of cuBLASLt, or several, of which an earlier one counts; a driver is no part of that, its
// updates leave kernels as they are. The file is read as hostile input: a damaged or a cut one counts as
// nothing there, and products are measured again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "gpu/cuda/gemm/gemm_shape.hpp"

namespace troupe::cuda {

// All that a measurement depends on.
struct GemmDevice {
  std::string name;                 // "NVIDIA H200"
  int compute_capability = 0;       // 90
  int num_multiprocessors = 0;      // a part of a GPU (MIG) has fewer
  std::size_t cublas_version = 0;   // CublasGemms::version()
  std::size_t workspace_bytes = 0;  // that algorithms could choose from
  bool operator==(const GemmDevice&) const = default;
};

// nullopt: there is no file, or nothing of this device in it. `directory` is open. Throws
// std::runtime_error if the file, or the device's part of it, is not in order.
std::optional<GemmChoices> read_gemm_choices(int directory, const GemmDevice& device);

// In place of what the file had of this device; other devices' parts stay, the oldest go where they are
// too many. In one step: there is the old file or the new one. Throws std::runtime_error.
void write_gemm_choices(int directory, const GemmDevice& device, const GemmChoices& choices);

// "product-choices.json".
extern const char* const kGemmChoicesFile;

}  // namespace troupe::cuda
