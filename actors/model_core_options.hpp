// SPDX-License-Identifier: Apache-2.0
// Options of the cores of an engine's models, from those of the engine.
#pragma once

#include <vector>

#include "actors/actor_rules.hpp"
#include "engine/model_cores.hpp"

namespace troupe {

// By ModelIndex. Takes what the disk tier knows of earlier processes: called once.
std::vector<ModelCoreOptions> model_core_options(const ActorEnvironment& environment, PageSecret secret);

}  // namespace troupe
