// SPDX-License-Identifier: Apache-2.0
// Registers and static shared memory of kernels, as nvcc compiles them for sm_90a. The compiler here knows
// neither,
// `__shared__` being a static variable, so launches are held to the table of
// bench/kernels/cuda/machine_code.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe::simt {

struct CompiledKernel {
  std::uint32_t registers = 0;  // of a thread
  std::size_t static_shared_bytes = 0;
};

// By the kernel's name in the symbols of its program or library; nullopt: the table has none of that name.
// Any thread.
std::optional<CompiledKernel> compiled_kernel(const void* kernel);

// For kernels of tests, which no table has.
void set_compiled_kernel(const void* kernel, const CompiledKernel& compiled);

}  // namespace troupe::simt
