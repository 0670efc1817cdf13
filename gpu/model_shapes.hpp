// SPDX-License-Identifier: Apache-2.0
// What follows from a model's configuration and is the same on every device.
#pragma once

#include <cstdint>

#include "gpu/data_type.hpp"
#include "gpu/host/kernels/kv_pages.hpp"
#include "gpu/host/kernels/rotary.hpp"
#include "gpu/model_config.hpp"

namespace troupe {

KvLayout kv_layout_of(const ModelConfig& config, DataType type, std::uint32_t num_pages);

RotaryParameters rotary_parameters(const ModelConfig& config, std::uint32_t context_length);

}  // namespace troupe
