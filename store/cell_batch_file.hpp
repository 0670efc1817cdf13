// SPDX-License-Identifier: Apache-2.0
// The file in the state directory in which the sizes of batches of recurrent cells are kept
// that pay (knee_of() in policy/costs/cost_profile.hpp), by all that they depend on:
// cell-batches.sqlite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/state_directory.hpp"

namespace troupe {

extern const char* const kCellBatchFile;

// Nodes by cell; empty: none are kept for the key. Throws std::runtime_error if the file can't
// be read, or what is in it can't be sizes of so many cells.
std::vector<std::uint32_t> read_cell_batches(const StateDirectory& directory, const std::string& key,
                                             std::size_t num_cells);

// As write_numbers().
void write_cell_batches(const StateDirectory& directory, const std::string& key,
                        const std::vector<std::uint32_t>& max_batches);

}  // namespace troupe
