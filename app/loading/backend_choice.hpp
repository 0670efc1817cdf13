// SPDX-License-Identifier: Apache-2.0
// Which backend runs the model, and in which process, from the options.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/loading/device_defaults.hpp"
#include "app/options/options.hpp"
#include "gpu/backend.hpp"
#include "gpu/cpu/cpu_cores.hpp"

namespace troupe {

struct ChosenBackend {
  std::shared_ptr<Backend> backend;
  Options options;        // with its device's numbers where they were left to it, of workers too
  bool is_child = false;  // its host pages must be shared ones
};

// Throws ConfigurationError if one GPU is asked to run several workers, or a CUDA
// library is missing that the options name or that their device needs. The devices
// cpu and noop need none and look for none.
void check_cuda_settings(const Options& options);

// "auto" falls back on the CPU backend if the CUDA one can't run the model, and
// logs why, once. A device that was asked for by name is made, or
// std::runtime_error says why not. Includes check_cuda_settings().
// cores: of the CPU, shared by the backends of several models; null: each has its own.
ChosenBackend choose_backend(const Options& options, std::shared_ptr<CpuCores> cores = nullptr);

// Cores for the models of these options.
std::shared_ptr<CpuCores> make_cpu_cores(const Options& options);

// Numbers that are 0 become what suits the device: one worker, its sequences, and batches large enough for
// prefill to be bound by arithmetic, small enough not to hold up decodes for long. A GPU's max_in_flight
// stays 0 until its backend has been made.
Options with_device_numbers(Options options, DeviceKind kind);

// The part of the options that every backend has.
BackendSettings backend_settings(const Options& options);

// NVIDIA's driver, or that of Windows below us.
bool has_gpu_driver();

// For `troupe inspect`: the GPU that "auto" would take, or why none.
std::string cuda_in_words(const Options& options);

}  // namespace troupe
