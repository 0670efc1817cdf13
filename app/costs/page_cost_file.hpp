// SPDX-License-Identifier: Apache-2.0
// Measured costs of pages, kept in the state directory for the next start.
// The file is read as hostile input: whatever is not in order is measured again.
#pragma once

#include <optional>
#include <string>

#include "policy/pages/restore_choice.hpp"

namespace troupe {

// key: all that the costs depend on. nullopt: there is no file. Throws std::runtime_error
// if it is not in order, or another key's.
std::optional<RestoreCosts> read_page_costs(int directory, const std::string& key);

// In one step: there is the old file or the new one. Throws std::runtime_error.
void write_page_costs(int directory, const std::string& key, const RestoreCosts& costs);

// "page-costs.json".
extern const char* const kPageCostFile;

}  // namespace troupe
