// SPDX-License-Identifier: Apache-2.0
// Cost profiles as `troupe profile` writes them (JSON).
#pragma once

#include <filesystem>

#include "policy/costs/cost_profile.hpp"

namespace troupe::loadgen {

// Throws std::runtime_error that names the file, the key, what was expected and
// what came. The result has no profile_problem().
CostProfile read_cost_profile(const std::filesystem::path& file);

// Writes a copy of the profile in `from` with other overheads, everything else
// as it is. Throws std::runtime_error.
void write_with_overheads(const std::filesystem::path& from, const std::filesystem::path& to,
                          const ServingOverheads& overheads);

}  // namespace troupe::loadgen
