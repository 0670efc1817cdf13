// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's library, which is opened when it is wanted, so that one
// executable runs with and without a GPU.
#pragma once

#include <cstdint>
#include <filesystem>

#include "gpu/backend.hpp"

namespace troupe {

// libtroupe_cuda.so beside this process's executable, or where it is installed: in lib/troupe
// beside the executable's folder.
std::filesystem::path default_cuda_library();

// Opens the library; it stays open. Throws std::runtime_error: there is no such
// file, it can't be loaded (a library that it needs is missing), it is something
// else, or of another build.
MakeBackend load_cuda_library(const std::filesystem::path& path);

// Kernels of the graph that the library launched last, as the driver counts them; 0: none yet.
// Benchmarks ask for it. Throws as load_cuda_library().
using LastGraphKernels = std::uint64_t (*)();
LastGraphKernels load_last_graph_kernels(const std::filesystem::path& path);

}  // namespace troupe
