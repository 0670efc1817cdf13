// SPDX-License-Identifier: Apache-2.0
// The table [arrivals] of a workload's TOML.
#pragma once

#include <filesystem>

#include <toml++/toml.h>

#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

// Accepts only the keys of the table's kind: others would have no effect.
// Throws std::runtime_error as TableReader does.
ArrivalSettings read_arrivals(const toml::table& table, const std::filesystem::path& directory);

}  // namespace troupe::loadgen
