// SPDX-License-Identifier: Apache-2.0
// The sizes of batches that pay, by recurrent cell, on this machine (BatchMaker's desired batch
// sizes): as kept by an earlier process, or measured now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/loading/model_loading.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// All that they depend on.
std::string cell_batch_key(const LoadedModel& model);

// Nodes by cell, as CoreOptions::max_cell_batches; the model has an unfolding. directory: where
// they are kept; null: nowhere. Before the engine makes its device. Never throws for want of a
// measurement: batches of any size then, and the log says so.
std::vector<std::uint32_t> cell_batches(const LoadedModel& model, const StateDirectory* directory);

}  // namespace troupe
