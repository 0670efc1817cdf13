// SPDX-License-Identifier: Apache-2.0
// Properties of a GPU, and whether it can be used.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::cuda {

struct GpuProperties {
  int ordinal = 0;
  int num_gpus = 0;            // of this machine, that this process may use
  std::string name = {};       // "NVIDIA H200"
  int compute_capability = 0;  // 90
  int num_multiprocessors = 0;
  int driver_version = 0;   // CUDA's highest that the driver knows: 13000
  int runtime_version = 0;  // of the build
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;        // now, this process's context taken off
  std::uint64_t bytes_per_second = 0;  // of its memory, at most; 0: the driver does not say
};

// Makes the GPU the calling thread's, and its context if there is none yet.
// Throws std::runtime_error that says in one line why it can't be used: no
// driver, one that is too old, no such GPU, one older than compute capability 8.0.
GpuProperties use_gpu(int ordinal);

// "cuda:0, NVIDIA H200 (sm_90, 139.8 GiB, driver 13.0)"
std::string to_string(const GpuProperties& gpu);

}  // namespace troupe::cuda
