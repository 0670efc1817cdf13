// SPDX-License-Identifier: Apache-2.0
// Files in the state directory that keep what was measured on this machine, by all that it depends on (the
// key): a row a number. Read as hostile input: a plain file that only its owner reads, no link, no foreign
// tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/costs/encoder_costs.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// Writing takes the place of what was kept for the key, in one step. A damaged file is begun anew. Reading
// and writing throw std::runtime_error.

// Times of encoders' batches (policy/costs/encoder_costs.hpp), a row a point of the grid.
inline constexpr const char* kEncoderCostFile = "encoder-costs.sqlite";
// nullopt: none are kept. Throws, too, if what is there can't be such times.
std::optional<EncoderCosts> read_encoder_costs(const StateDirectory& directory, const std::string& key);
void write_encoder_costs(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs);

// Sizes of batches of recurrent cells that pay (knee_of() in policy/costs/cost_profile.hpp): nodes by cell.
inline constexpr const char* kCellBatchFile = "cell-batches.sqlite";
// Empty: none are kept. Throws, too, if what is there can't be sizes of so many cells.
std::vector<std::uint32_t> read_cell_batches(const StateDirectory& directory, const std::string& key,
                                             std::size_t num_cells);
void write_cell_batches(const StateDirectory& directory, const std::string& key,
                        const std::vector<std::uint32_t>& max_batches);

}  // namespace troupe
