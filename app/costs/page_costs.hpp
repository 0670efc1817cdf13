// SPDX-License-Identifier: Apache-2.0
// Costs of KV pages on this machine, for the cache: as measured at an earlier
// start, or now, or, where nothing can be measured, as far as the network's shape
// tells.
#pragma once

#include "app/loading/model_loading.hpp"
#include "policy/pages/restore_choice.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// directory: where measurements are kept; null: nowhere. Before the engine makes
// its device: two need twice the memory. Never throws for want of a measurement;
// the log says what is used. A small model takes a tenth of a second (two on a
// busy machine), a large one a few seconds, a start that finds them nothing.
RestoreCosts page_costs(const Options& options, const LoadedModel& model, const StateDirectory* directory);

}  // namespace troupe
