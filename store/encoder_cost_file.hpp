// SPDX-License-Identifier: Apache-2.0
// The file in the state directory in which times of encoders' batches are kept
// (policy/costs/encoder_costs.hpp), by all that they depend on: encoder-costs.sqlite, a row
// a point of the grid. Read as hostile input.
#pragma once

#include <optional>
#include <string>

#include "policy/costs/encoder_costs.hpp"
#include "store/state_directory.hpp"

namespace troupe {

extern const char* const kEncoderCostFile;

// nullopt: none are kept for the key. Throws std::runtime_error if the file can't be read, or
// what is in it can't be such times.
std::optional<EncoderCosts> read_encoder_costs(const StateDirectory& directory, const std::string& key);

// In place of those kept for the key before, in one step. A damaged file is begun anew.
// Throws std::runtime_error.
void write_encoder_costs(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs);

}  // namespace troupe
