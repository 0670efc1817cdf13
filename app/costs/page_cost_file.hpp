// SPDX-License-Identifier: Apache-2.0
// Measured costs of pages, kept in the state directory for the next start.
// The file is read as hostile input: whatever is not in order counts as nothing
// there, and it is measured again.
#pragma once

#include <optional>
#include <string>

#include "policy/pages/restore_choice.hpp"

namespace troupe {

// key: all that the costs depend on; another's are not taken. nullopt: none, and
// `problem` says why if there is a file.
std::optional<RestoreCosts> read_page_costs(int directory, const std::string& key, std::string& problem);

// In one step: there is the old file or the new one. Empty: done; else what went
// wrong.
std::string write_page_costs(int directory, const std::string& key, const RestoreCosts& costs);

// "page-costs.json".
extern const char* const kPageCostFile;

}  // namespace troupe
