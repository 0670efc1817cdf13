// SPDX-License-Identifier: Apache-2.0
// The answers of the probes, from the engine's status. Pure.
#pragma once

#include <string>
#include <string_view>

#include "actors/engine.hpp"

namespace troupe {

std::string_view name_of(EngineState state);
std::string_view name_of(Trouble trouble);

// {"status":…,…}. Strangers get the status only: how much others ask for is none of
// their business.
std::string status_json(std::string_view status, const EngineStatus& engine, bool is_stranger);

}  // namespace troupe
