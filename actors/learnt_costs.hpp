// SPDX-License-Identifier: Apache-2.0
// Times of encoders' batches that the cores have learnt, kept in the state directory for the next
// start, which then need not learn them again.
#pragma once

#include "actors/actor_rules.hpp"
#include "engine/model_cores.hpp"

namespace troupe {

// Nothing happens without a state directory; a failure is logged, since they are only an advantage.
void keep_learnt_costs(const ActorEnvironment& environment, const ModelCores& cores);

}  // namespace troupe
