// SPDX-License-Identifier: Apache-2.0
// The file in the state directory in which a model's predictor of lengths is kept
// (policy/lengths/length_predictor.hpp). Any bytes; the text in it says whether it is whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/state_directory.hpp"

namespace troupe {

std::string length_file_name(std::string_view model);  // "lengths-9f3c….txt"

// nullopt: there is none, or it can't be read, or is larger than any that was written.
std::optional<std::string> read_length_file(const StateDirectory& directory, std::string_view model);

// In place of the one before, which stays if this fails. Returns the reason, or nothing.
[[nodiscard]] std::optional<std::string> write_length_file(const StateDirectory& directory,
                                                           std::string_view model, std::string_view text);

}  // namespace troupe
