// SPDX-License-Identifier: Apache-2.0
// Measures what the engine, actors and all, adds to the device: to each batch,
// between batches, and before a request's first one. HTTP and its client are not
// in it; `troupe-loadgen profile` measures those against a running server.
#pragma once

#include <cstdint>

#include "app/loading/model_loading.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe {

// cost: of the same model on the same device. Throws std::runtime_error if the
// engine fails.
ServingOverheads measure_engine(const LoadedModel& model, const EngineOptions& options,
                                const IterationCost& cost, std::uint32_t num_rounds);

}  // namespace troupe
