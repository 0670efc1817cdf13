// SPDX-License-Identifier: Apache-2.0
// Which backend runs the model, and in which process, from the options.
#pragma once

#include <memory>
#include <string>

#include "app/options.hpp"
#include "gpu/backend.hpp"

namespace troupe {

struct ChosenBackend {
  std::shared_ptr<Backend> backend;
  Options options;        // with its device's numbers where they were left to it
  bool is_child = false;  // its host pages must be shared ones
};

// "auto" falls back on the host backend if the CUDA one can't run the model, and
// logs why, once. What was asked for by name is made, or std::runtime_error says
// why not.
ChosenBackend choose_backend(const Options& options);

enum class DeviceKind : std::uint8_t { kHost, kGpu };

// Numbers of batches that are 0 become what suits the device: large enough for
// prefill to be bound by arithmetic, small enough not to hold up decodes for long.
Options with_device_numbers(Options options, DeviceKind kind);

// What the options ask of any backend.
BackendSettings backend_settings(const Options& options);

// For `troupe inspect`: the GPU that "auto" would take, or why none.
std::string cuda_in_words(const Options& options);

}  // namespace troupe
