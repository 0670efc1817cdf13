// SPDX-License-Identifier: Apache-2.0
// Times of an encoder's padded batches on this machine, for plans of batches: as kept by an
// earlier process, which may have learnt since, or measured now.
#pragma once

#include <string>

#include "app/loading/model_loading.hpp"
#include "policy/costs/encoder_costs.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// All that they depend on.
std::string encoder_cost_key(const LoadedModel& model);

// directory: where they are kept; null: nowhere. Before the engine makes its device. Never
// throws for want of a measurement; the log says what is used.
EncoderCosts encoder_costs(const LoadedModel& model, const StateDirectory* directory);

}  // namespace troupe
