// SPDX-License-Identifier: Apache-2.0
// Times of an encoder's padded batches on this machine, for plans of batches: as kept by an
// earlier process, which may have learnt since, or measured now.
#pragma once

#include <cstdint>
#include <string>

#include "app/costs/probed_device.hpp"
#include "app/loading/model_loading.hpp"
#include "policy/costs/encoder_costs.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// All that they depend on.
std::string encoder_cost_key(const LoadedModel& model);

// directory: where they are kept; null: nowhere. Before the engine makes its device. Never
// throws for want of a measurement; the log says what is used.
EncoderCosts encoder_costs(const LoadedModel& model, const StateDirectory* directory);

// Measures what padded batches of texts take on an encoder's device: the warm-up of
// TurboTransformers' batch scheduler, at the points of EncoderCosts' grid. The least of
// num_rounds times of each point that the device allows; others follow from these. Throws std::runtime_error
// if a batch fails.
EncoderCosts measure_encoder_costs(ProbedDevice& device, std::uint32_t num_rounds);

}  // namespace troupe
