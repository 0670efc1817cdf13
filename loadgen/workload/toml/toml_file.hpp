// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <toml++/toml.h>

namespace troupe::loadgen {

// Throws std::runtime_error: "FILE: can't be read: …", "FILE:LINE: …".
toml::table parse_toml_file(const std::filesystem::path& file);

}  // namespace troupe::loadgen
