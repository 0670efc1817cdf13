// SPDX-License-Identifier: Apache-2.0
// Workloads as TOML: tables [workload] and [arrivals], and [[class]] for each
// class.
#pragma once

#include <filesystem>

#include <toml++/toml.h>

#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

// Reads those three tables and looks at no other. Files named in them are
// relative to `directory`. Throws std::runtime_error with file and line: unknown
// keys (with the nearest known one), wrong types; and what check() refuses.
WorkloadSettings read_workload(const toml::table& root, const std::filesystem::path& directory);

}  // namespace troupe::loadgen
