// SPDX-License-Identifier: Apache-2.0
// Which kernel computes which product, as measured, kept in the state directory
// for the next start. The file is read as hostile input: another device's or
// version's, a damaged or a cut one counts as nothing there, and products are
// measured again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "gpu/cuda/gemm/product_shape.hpp"

namespace troupe::cuda {

// All that a measurement depends on.
struct ProductDevice {
  std::string name;                 // "NVIDIA H200"
  int compute_capability = 0;       // 90
  int num_multiprocessors = 0;      // a part of a GPU (MIG) has fewer
  int driver_version = 0;           // 13000
  std::size_t cublas_version = 0;   // CublasProducts::version()
  std::size_t workspace_bytes = 0;  // that algorithms could choose from
  bool operator==(const ProductDevice&) const = default;
};

// nullopt: there is no file. `directory` is open. Throws std::runtime_error if the file
// is not in order, or another device's.
std::optional<ProductChoices> read_product_choices(int directory, const ProductDevice& device);

// In one step: there is the old file or the new one. Throws std::runtime_error.
void write_product_choices(int directory, const ProductDevice& device, const ProductChoices& choices);

// "product-choices.json".
extern const char* const kProductChoicesFile;

}  // namespace troupe::cuda
