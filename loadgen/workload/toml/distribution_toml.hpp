// SPDX-License-Identifier: Apache-2.0
// A distribution as TOML: a number, or a table like
// { kind = "lognormal", median = 760, sigma = 1, max = 8192 }.
#pragma once

#include <filesystem>
#include <string_view>

#include "loadgen/workload/toml/table_reader.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

// Leaves the settings alone where the key is missing. Throws
// std::runtime_error as TableReader does.
void read_distribution(TableReader& parent, std::string_view key, const std::filesystem::path& directory,
                       DistributionSettings& settings);

// Files named in TOML are relative to its own directory.
std::string resolved(const std::filesystem::path& directory, const std::string& file);

}  // namespace troupe::loadgen
