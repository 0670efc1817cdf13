// SPDX-License-Identifier: Apache-2.0
// A backend over all GPUs of the machine (--device cuda:all): worker i has GPU i, also
// after it was replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/backend.hpp"

namespace troupe {

// Makes the backend of GPU settings.ordinal; by several threads at once.
using MakeGpuBackend = std::function<std::unique_ptr<Backend>(const BackendSettings& settings)>;

// The backend of GPU 0 says how many there are. All get as many KV pages as the one
// with the least free memory has room for. num_workers: 0, or as many as there are GPUs,
// else ConfigurationError is thrown. Throws std::runtime_error that names the GPU:
// it can't be used, or it computes otherwise than GPU 0, whose pages it would read.
std::unique_ptr<Backend> make_backend_of_all_gpus(const BackendSettings& settings, std::uint64_t num_workers,
                                                  const MakeGpuBackend& make_backend);

}  // namespace troupe
