// SPDX-License-Identifier: Apache-2.0
// Measures what padded batches of texts take on an encoder's device: the warm-up of
// TurboTransformers' batch scheduler, at the points of EncoderCosts' grid.
#pragma once

#include <cstdint>

#include "app/costs/probed_device.hpp"
#include "policy/costs/encoder_costs.hpp"

namespace troupe {

// The least of num_rounds times of each point that the device allows; others follow from
// these. Throws std::runtime_error if a batch fails.
EncoderCosts measure_encoder_costs(ProbedDevice& device, std::uint32_t num_rounds);

}  // namespace troupe
